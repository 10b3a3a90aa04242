// Package replicas forwards requests to the process that can serve them, if several processes have the
// same key and a client may reach any of them.
//
//		request ─► Forward: find the process ─► its inbox ─► the Handler there ─► answer, as it comes
//
//	  - find.go knows where replicas may be, as configured, and asks them which process each is;
//	  - register.go tells the store that they share where this one is, so that the others find it there;
//	  - forward.go sends a request, with the client's headers sealed, and returns the answer to
//	    the client;
//	  - inbox.go accepts such a request, once, and serves it as if the client had sent it to
//	    this replica.
//
// Only replicas with the key are trusted: requests and answers between them are sealed. The package
// does not know sessions or eras: its caller says which process is to serve a request.
//
// The rooms: sealed makes the ids and tokens that clients keep, so that any replica with the same key can serve them; principal
// identifies the user of a request; processes counts the clients' processes; storeconfig opens the configured store.
package replicas
