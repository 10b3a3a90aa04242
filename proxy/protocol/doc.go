// Package protocol holds what the protocol names.
//
//   - mcp has names, codes, errors and messages of dragoman's own;
//   - idmap gives requests on a pipe ids of dragoman's own; requests holds the open ones, and sends none;
//   - toolindex has what is known of a server's tools; dialect updates JSON Schemas in a list; memo caches translations of lists;
//   - crossing has the words of the two bridges, which the road between them reads.
package protocol
