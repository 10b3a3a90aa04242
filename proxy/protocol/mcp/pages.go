package mcp

import (
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

// MaxPages is how many pages of one list are read.
const MaxPages = 200

// EndlessListError is the error for a list whose cursors do not end.
type EndlessListError struct {
	Cursor string // that came a second time; "" if all differed
}

func (e *EndlessListError) Error() string {
	if e.Cursor != "" {
		return fmt.Sprintf("the cursor %.40s comes a second time: the list has no end", e.Cursor)
	}
	return fmt.Sprintf("the list has more than %d pages", MaxPages)
}

var cursorSeed = maphash.MakeSeed()

// ReadPages reads the pages of a list of a server of the revision r, from the first to the last, and calls page with the
// result of each. ask sends the list request; params are the members of its params, "" for none. ReadPages returns the first
// error of ask or page, or an [*EndlessListError] after the last page that it read.
//
// See https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination.
func ReadPages(r *translate.Revision, ask func(params string) (result []byte, err error), page func(result gjson.Result) error) error {
	params := ""
	var seen []uint64 // hashes, since cursors can be long
	for range MaxPages {
		raw, err := ask(params)
		if err != nil {
			return err
		}
		result := gjson.ParseBytes(raw)
		if err := page(result); err != nil {
			return err
		}
		cursor := result.Get("nextCursor")
		if !r.HasCursor(cursor.Raw) {
			return nil
		}
		hash := maphash.String(cursorSeed, cursor.Raw)
		if cursor.Type == gjson.String {
			hash = maphash.String(cursorSeed, `"`+cursor.Str) // in whichever way it is escaped
		}
		if slices.Contains(seen, hash) {
			return &EndlessListError{cursor.Raw}
		}
		seen = append(seen, hash)
		params = `"cursor":` + cursor.Raw
	}
	return &EndlessListError{}
}
