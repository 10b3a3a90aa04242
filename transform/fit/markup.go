package fit

import (
	"bytes"
	"slices"
)

// spans are places in a text, in order.
type spans []struct{ from, to uint32 }

// has reports whether nearly all of what is from pos to end is in these places.
func (s spans) has(pos, end uint32) bool {
	i, _ := slices.BinarySearchFunc(s, pos, func(e struct{ from, to uint32 }, pos uint32) int {
		if e.to <= pos {
			return -1
		}
		return 1
	})
	in := uint32(0)
	for ; i < len(s) && s[i].from < end; i++ {
		in += min(s[i].to, end) - max(s[i].from, pos)
	}
	return in > 0 && in+1 >= (end-pos)*3/4
}

// unseen are elements of HTML that a browser does not show.
var unseen = [...]string{"head", "script", "style", "svg", "template", "noscript"}

// notShown returns the places in a page of HTML that a browser does not show. It returns none for other texts.
func notShown(src []byte) (all spans) {
	if begin := bytes.ToLower(bytes.TrimSpace(src[:min(len(src), 512)])); !bytes.HasPrefix(begin, []byte("<!doctype html")) && !bytes.HasPrefix(begin, []byte("<html")) && !bytes.Contains(begin, []byte("<head>")) {
		return nil
	}
	var open [len(unseen) + 1]bool // those that do not end any more
	for i := 0; i < len(src); {
		n := bytes.IndexByte(src[i:], '<')
		if n < 0 {
			break
		}
		i += n
		end := 0
		for k, name := range unseen {
			if !open[k] && isTag(src[i:], name) {
				end = after(src, i, "</"+name)
				open[k] = end == 0
			}
		}
		if k := len(unseen); !open[k] && bytes.HasPrefix(src[i:], []byte("<!--")) {
			end = after(src, i, "-->")
			open[k] = end == 0
		}
		if end == 0 {
			i++
			continue
		}
		all = append(all, struct{ from, to uint32 }{uint32(i), uint32(end)})
		i = end
	}
	return all
}

// isTag reports whether a text begins with the start of an element.
func isTag(text []byte, name string) bool {
	n := 1 + len(name)
	return len(text) > n && bytes.EqualFold(text[1:n], []byte(name)) && (text[n] == '>' || text[n] == ' ' || text[n] == '\n' || text[n] == '\t')
}

// after returns the end of the mark after i, and of the tag that it begins, or 0 if there is none.
func after(text []byte, i int, mark string) int {
	for i < len(text) {
		n := bytes.IndexByte(text[i:], mark[0])
		if n < 0 {
			break
		}
		if i += n; len(text)-i >= len(mark) && bytes.EqualFold(text[i:i+len(mark)], []byte(mark)) {
			i += len(mark)
			if mark[0] == '<' {
				if n := bytes.IndexByte(text[i:], '>'); n >= 0 {
					return i + n + 1
				}
				break
			}
			return i
		}
		i++
	}
	return 0
}
