#!/usr/bin/env bash
# Records a Redrive on real parts as docs/images/redrive.svg. `make recording` calls it:
#
#   hack/with-parts.sh newest -- hack/recording/record.sh docs/images/redrive.svg
#
# bin/quickstart starts the API server and the operator, and creates the ConsumerQueue `orders`.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$HACK_DIR/.."

work=$(mktemp -d)
fifo="$work/input"
mkfifo "$fifo"
bin/quickstart >"$work/quickstart.log" 2>&1 &
quickstart=$!
typist=""
end() {
  [[ -z $typist ]] || kill "$typist" 2>/dev/null || true
  kill "$quickstart" 2>/dev/null || true
  wait "$quickstart" 2>/dev/null || true
  rm -rf "$work"
}
trap end EXIT

# The last line of the tour has the vhost and the address of the management API.
until grep -q "RabbitMQ's management page" "$work/quickstart.log"; do
  kill -0 "$quickstart" 2>/dev/null || die "the quickstart ended: $(tail -n 3 "$work/quickstart.log")"
  sleep 0.5
done
page=$(sed -n "s/.*RabbitMQ's management page, virtual host \"\(.*\)\": \(.*\)/\1 \2/p" "$work/quickstart.log")
read -r vhost api <<<"$page"
export KUBECONFIG=$PWD/bin/kubeconfig

# publish QUEUE HEADERS publishes each line of the standard input as a body.
publish() {
  jq -c --arg queue "$1" --argjson headers "$2" --raw-input \
    '{properties: {delivery_mode: 2, headers: $headers}, routing_key: $queue, payload: ., payload_encoding: "string"}' |
    while read -r message; do
      curl -fsS -u guest:guest -H content-type:application/json -d "$message" "$api/api/exchanges/$vhost/amq.default/publish" >/dev/null
    done
}
reject() {
  curl -fsS -u guest:guest -H content-type:application/json -o /dev/null \
    -d '{"count": 1000, "ackmode": "reject_requeue_false", "encoding": "auto"}' "$api/api/queues/$vhost/orders/get"
}

reject # the messages of the tour
kubectl() { "$KUBEBUILDER_ASSETS/kubectl" "$@"; }
seq 1 120 | sed 's/.*/{"order": &, "country": "DE"}/' | publish orders '{}'
seq 1 40 | sed 's/.*/{"order": &}/' | publish orders.dlq '{"x-failure-kind": "invalid"}'
reject
until [[ $(kubectl get consumerqueue orders -o jsonpath='{.status.messages.deadLettered}') -ge 160 ]]; do sleep 1; done

cat >"$work/session.sh" <<'END'
run() {
  printf '$ '
  for ((i = 0; i < ${#1}; i++)); do printf '%s' "${1:i:1}" && sleep 0.03; done
  printf '\n'
  eval "${1/kubectl warren/bin\/kubectl-warren}"
  sleep 2
}
sleep 0.5
run 'kubectl warren dlq ls'
run 'kubectl warren dlq redrive orders --died-reason Rejected --rate 40'
run 'kubectl warren dlq jobs'
END

: >"$work/output"
{
  until grep -qF '[y/N]' "$work/output"; do sleep 0.1; done
  sleep 1.5
  printf 'y\r'
  exec sleep 120 # keeps the input open
} >"$fifo" &
typist=$!
script --quiet --flush --return --command "stty cols 100 rows 30; bash $work/session.sh" --log-out "$work/output" --log-timing "$work/timing" \
  <"$fifo" >/dev/null
go run ./hack/recording "$work/output" "$work/timing" >"$1"
say "recorded $1"
