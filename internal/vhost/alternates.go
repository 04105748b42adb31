package vhost

import "slices"

// alternate returns the exchange that receives the messages that an exchange of the policy cannot route, if the policy sets one.
func (p *Policy) alternate() (exchange string, given bool) {
	if p.ApplyTo != "" && p.ApplyTo != "all" && p.ApplyTo != "exchanges" {
		return "", false
	}
	exchange, given = p.Definition[ArgAlternateExchange].(string)
	return exchange, given
}

// mayHaveAlternate reports whether an exchange has an alternate exchange, or may have one by a policy.
func (o Observed) mayHaveAlternate(exchange string) bool {
	if _, given := o.Exchanges[exchange].Alternate(); given {
		return true
	}
	return slices.ContainsFunc(o.Policies, func(policy Policy) bool {
		_, given := policy.alternate()
		return given && policy.Pattern.Match(exchange) != MatchNo
	})
}
