package failure

// advice says what the operator of an adapter does if its API cannot be reached.
var advice = map[Code]string{
	TransportRefused: "is the API running, and target.base_url right?",
	TransportDNS:     "is the host in target.base_url right, and does this machine resolve it?",
	TransportTimeout: "does the API answer in time (target.timeout_ms), and does this machine reach it?",
	TransportTLS:     "does this machine trust the API's certificate, and is target.base_url its name?",
}

// Advice says, for the log, what the operator may do about a failure; "" for nothing.
func (c Code) Advice() string { return advice[c] }
