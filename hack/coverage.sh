#!/usr/bin/env bash
# Reads coverage profiles, prints the coverage of each package and of all together, and fails if the coverage of a package is too low.
#
#   hack/coverage.sh PROFILE…
#
# Every test binary reports on every package (-coverpkg), so a block is covered if any of them ran it. Packages named …test, generated
# code and wiring do not count.
set -euo pipefail

awk '
  function wanted(package) { return package ~ /\/internal\/topology(\/plan)?$/ ? 95 : 80 }

  /^mode:/ || /zz_generated|\/cmd\/|\/hack\/|\/test\/|test\/[a-z_]*\.go/ { next }
  { statements[$1] = $2; if ($3 > 0) covered[$1] = 1 }

  END {
    for (block in statements) {
      package = block
      sub(/\/[^\/]*$/, "", package)
      total[package] += statements[block]
      if (block in covered) hit[package] += statements[block]
    }
    for (package in total) {
      percent = 100 * hit[package] / total[package]
      short = percent < wanted(package)
      failed += short
      printf "%-55s %6.1f %%  (at least %d %%)%s\n", package, percent, wanted(package), short ? "  FALLS SHORT" : "" | "sort"
    }
    close("sort")
    for (package in total) { statementsOfAll += total[package]; hitOfAll += hit[package] }
    if (statementsOfAll) printf "%-55s %6.1f %%\n", "all packages", 100 * hitOfAll / statementsOfAll
    if (!length(total)) print "the coverage profile names no package of ours" > "/dev/stderr"
    if (failed) print "coverage: " failed " package(s) fall short, see above; `go tool cover -html=" FILENAME "` shows what no test runs" > "/dev/stderr"
    exit failed > 0 || !length(total)
  }
' "${@:?usage: hack/coverage.sh PROFILE…}"
