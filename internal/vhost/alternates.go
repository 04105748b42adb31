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

// AlternatePolicies selects the policies that set an alternate exchange.
func AlternatePolicies(policies []Policy) (selected []Policy) {
	for i := range policies {
		if _, given := policies[i].alternate(); given {
			selected = append(selected, policies[i])
		}
	}
	return selected
}

// alternate returns the alternate exchange that the argument sets, if there is one.
func (e Exchange) alternate() (name string, given bool) {
	name, given = e.Arguments[ArgAlternateExchange].(string)
	return name, given
}

// Alternates returns the exchanges that may receive the messages that the exchange of this name cannot route. The argument overrides
// policies. It considers each policy that may match, whatever its priority.
func (e Exchange) Alternates(name string, policies []Policy) (exchanges []string) {
	if alternate, given := e.alternate(); given {
		return []string{alternate}
	}
	for i := range policies {
		alternate, given := policies[i].alternate()
		if given && !slices.Contains(exchanges, alternate) && policies[i].Pattern.Match(name) != MatchNo {
			exchanges = append(exchanges, alternate)
		}
	}
	return exchanges
}

// alternatesIn returns the alternates of the exchanges that may have some. The patterns of a hostile vhost can make this take minutes.
func alternatesIn(exchanges map[string]Exchange, policies []Policy) map[string][]string {
	found := map[string][]string{}
	for name, exchange := range exchanges {
		if alternates := exchange.Alternates(name, policies); len(alternates) > 0 {
			found[name] = alternates
		}
	}
	return found
}

// alternatesOf uses the known alternates. The patterns of policies can take long.
func (o Observed) alternatesOf(exchange string) []string {
	if known, given := o.Alternates[exchange]; given {
		return known
	}
	return o.Exchanges[exchange].Alternates(exchange, o.Policies)
}
