package rabbit

const (
	product = "Warren"
	// ownerProperty is the client property that says whose connection it is; see Config.Owner.
	ownerProperty = "warren_owner"
)
