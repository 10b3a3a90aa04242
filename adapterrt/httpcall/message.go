package httpcall

import (
	"bytes"
	"net/http"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/escape"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// Outgoing is the HTTP request that an operation becomes.
type Outgoing struct {
	Method      string
	Target      *file.Target // where it goes
	URL         Pairs        // absolute and escaped
	Body        Pairs
	HasBody     bool
	ContentType string
	Anonymous   bool          // it gets no credentials
	Scopes      []string      // of OAuth, that it needs; nil if they are not known
	Asks        bool          // a person can be asked to log in for it
	Headers     []file.Header // of parameters and auth; those of the adapter are added when the request is sent
	Secrets     []string      // credentials in it, for masking
	Timeout     time.Duration
	Repeatable  bool
	Changes     bool         // the operation may change something
	Stream      *file.Answer // how an answer that arrives item by item is read; nil for other answers
	Progress    Progress     // receives the progress of such an answer; nil for none
	Sign        Sign         // signs the request when it is sent; nil for none
	ID          string       // of the client's request, sent to the API as X-Request-Id
	Trace       []file.Header
}

func (o *Outgoing) reset() {
	clear(o.Headers)
	clear(o.Secrets)
	*o = Outgoing{
		URL: Pairs{Text: o.URL.Text[:0], first: '?'}, Body: Pairs{Text: o.Body.Text[:0]},
		Headers: o.Headers[:0], Secrets: o.Secrets[:0],
	}
}

// Sign adds the signature of a request with this body. It is called for each attempt, because a
// signature has a date.
type Sign func(req *http.Request, body []byte) error

// Progress receives the progress of an answer that arrives item by item: how many items have
// arrived, and the text of the newest item, "" for none.
type Progress func(items int, newest string)

// Pairs is a text that key=value pairs are appended to.
type Pairs struct {
	Text  []byte
	first byte // written before the first pair, 0 for nothing
	any   bool
	keys  int // bytes of keys in brackets; a long name can make them many, even if the request is small
}

// maxPairs is the largest size of pairs in bytes. They can be much larger than the request, because
// the name of an object is in the keys of all its members.
const maxPairs = 10 << 20

func (q *Pairs) full() bool { return len(q.Text)+q.keys > maxPairs }

// next starts another pair.
func (q *Pairs) next() {
	switch {
	case q.any:
		q.Text = append(q.Text, '&')
	case q.first != 0:
		q.Text = append(q.Text, q.first)
	}
	q.any = true
}

// Add appends a pair, both parts escaped.
func (q *Pairs) Add(key, value string) {
	q.next()
	q.Text = append(escape.AppendQuery(q.Text, key), '=')
	q.Text = escape.AppendQuery(q.Text, value)
}

// Reply is the HTTP response to an outgoing request.
type Reply struct {
	Status      int
	ContentType string
	Header      http.Header
	Body        []byte // the receiver of the reply owns it
}

// Clone returns a copy of the reply with a body of its own, which no Memory counts.
func (r *Reply) Clone() *Reply {
	c := *r
	c.Body = bytes.Clone(r.Body)
	return &c
}

// Media is a part of an answer that is not text. A client shows it in addition to the data.
type Media struct {
	Type    string // image/png
	Content []byte
	Name    string // a URI that is the same for the same content of an operation
}
