package downstream

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestHostsThatAreAddresses: where other machines can reach the listener, a Host may be any IP address, since no name was rebound then, and
// an Origin only that of the same request.
func TestHostsThatAreAddresses(t *testing.T) {
	cases := []struct {
		host, origin    string
		inside, exposed int
	}{
		{"10.1.2.3", "", 403, 200},
		{"10.1.2.3:8808", "", 403, 200},
		{"[2001:db8::1]", "", 403, 200},
		{"[2001:DB8::1]:8808", "", 403, 200},
		{"[::ffff:10.1.2.3]", "", 403, 200},
		{"[fe80::1%eth0]", "", 403, 200},
		{"127.0.0.1", "", 200, 200},
		{"a.example", "", 200, 200},

		// What is no address for netip, whatever a resolver makes of it.
		{"0x7f.1", "", 403, 403},
		{"0x7f000001", "", 403, 403},
		{"2130706433", "", 403, 403},
		{"127.1", "", 403, 403},
		{"010.1.2.3", "", 403, 403},
		{"10.1.2.3.", "", 403, 403},
		{"10.1.2.256", "", 403, 403},
		{"10.1.2.3.evil.example", "", 403, 403},
		{"10-1-2-3.evil.example", "", 403, 403},
		{"evil.example:10", "", 403, 403},
		{"2001:db8::1", "", 403, 403},
		{"[2001:db8::1", "", 403, 403},
		{"[evil.example]", "", 403, 403},
		{"[::1%evil.example]:x", "", 403, 403},

		// The origin of a page.
		{"10.1.2.3", "http://203.0.113.5", 403, 403},
		{"10.1.2.3:8808", "http://10.1.2.3:8808", 403, 200},
		{"10.1.2.3", "https://10.1.2.3", 403, 200},
		{"[2001:db8::1]:8808", "http://[2001:DB8::1]:8808", 403, 200},
		{"10.1.2.3:8808", "http://10.1.2.3", 403, 403},
		{"10.1.2.3:8808", "http://10.1.2.3:80", 403, 403},
		{"10.1.2.3", "10.1.2.3", 403, 403},
		{"10.1.2.3", "ftp://10.1.2.3", 403, 403},
		{"10.1.2.3", "null", 403, 403},
		{"10.1.2.3", "https://evil.example", 403, 403},
		{"10.1.2.3", "https://a.example", 403, 200},
		{"10.1.2.3", "http://127.0.0.1:6274", 403, 200},
		{"a.example", "http://10.1.2.3", 403, 403},
	}
	for _, exposed := range []bool{false, true} {
		t.Run(fmt.Sprintf("exposed %v", exposed), func(t *testing.T) {
			s := start(t, fakeHandler{post: echo}, HTTPConfig{AllowedHosts: []string{"a.example"}, Exposed: exposed})
			for _, c := range cases {
				head, want := "Host: "+c.host, c.inside
				if exposed {
					want = c.exposed
				}
				if c.origin != "" {
					head += "\r\nOrigin: " + c.origin
				}
				res, _ := ask(t, s.addr, strings.Replace(post("{}"), "Host: localhost", head, 1))
				if res.StatusCode != want && (want != 403 || res.StatusCode != 400) {
					t.Errorf("%s: %d, want %d", head, res.StatusCode, want)
				}
			}
		})
	}
}

// TestAnOriginIsAllowedWithItsHostOnly also on a connection that it was allowed on.
func TestAnOriginIsAllowedWithItsHostOnly(t *testing.T) {
	s := start(t, fakeHandler{post: echo}, HTTPConfig{Exposed: true})
	nc := dial(t, s.addr)
	br := bufio.NewReader(nc)
	for _, step := range []struct {
		host string
		want int
	}{{"10.1.2.3", 200}, {"10.1.2.3", 200}, {"10.1.2.4", 403}} {
		request := strings.Replace(post("{}"), "Host: localhost", "Host: "+step.host+"\r\nOrigin: http://10.1.2.3", 1)
		if _, err := io.WriteString(nc, request); err != nil {
			t.Fatal(err)
		}
		if res, _ := answer(t, br, request); res.StatusCode != step.want {
			t.Errorf("%s: %d, want %d", step.host, res.StatusCode, step.want)
		}
	}
}
