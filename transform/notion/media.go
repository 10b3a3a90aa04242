package notion

import (
	"cmp"
	"net/url"
	"path"
	"strings"

	"github.com/dragoman-proxy/dragoman/transform/tree"
)

// caption returns the caption of a block, on one line.
func (c *converter) caption(p tree.Value) string {
	return c.literal(plain(p.Get("caption"), tree.Value{}), inLink)
}

// media writes an image as an image and any other file as a link.
func (c *converter) media(kind string, p tree.Value) {
	link := fileAddress(p, c.options.KeepSigned)
	shown := c.caption(p)
	if link == "" {
		if shown != "" {
			shown = ": " + shown
		}
		c.paragraph("[" + kind + shown + "]")
		return
	}
	if shown == "" {
		shown = c.literal(fileName(p, link), inLink)
	}
	shown = cmp.Or(shown, kind)
	mark := ""
	if kind == "image" {
		mark = "!"
	}
	c.paragraph(mark + "[" + shown + "](" + address(link, inBlock) + ")")
}

// fileAddress returns the address of a file, or "" if it has none. The
// addresses of files that Notion keeps are signed for an hour. The part after
// the question mark is long, a credential, and soon invalid; it is cut off
// unless keepSigned is true.
func fileAddress(p tree.Value, keepSigned bool) string {
	if link := p.Get("external", "url").Text(); link != "" {
		return link
	}
	link := p.Get("file", "url").Text()
	if !keepSigned {
		link, _, _ = strings.Cut(link, "?")
	}
	if link == "" {
		link = p.Get("url").Text()
	}
	return link
}

// fileName returns a file's name, or the last part of its address.
func fileName(p tree.Value, link string) string {
	if name := p.Get("name").Text(); name != "" {
		return name
	}
	u, err := url.Parse(link)
	if err != nil || u.Path == "" {
		return ""
	}
	return strings.Trim(strings.ToValidUTF8(path.Base(u.Path), "�"), "/.")
}

func (c *converter) bookmark(kind string, p tree.Value) {
	link, shown := p.Get("url").Text(), c.caption(p)
	switch {
	case link == "" && shown == "":
		c.paragraph("[" + kind + "]")
	case link == "":
		c.paragraph("[" + kind + ": " + shown + "]")
	case shown == "" && absolute(link):
		c.paragraph("<" + address(link, inBlock) + ">")
	case shown == "":
		c.paragraph("[" + c.literal(link, inLink) + "](" + address(link, inBlock) + ")")
	default:
		c.paragraph("[" + shown + "](" + address(link, inBlock) + ")")
	}
}

func (c *converter) linkToPage(p tree.Value) {
	for _, kind := range []string{"page", "database", "comment"} {
		if id := p.Get(kind + "_id").Text(); id != "" {
			c.paragraph("[" + kind + "](notion:" + label(id) + ")")
			return
		}
	}
	c.paragraph("[page]")
}
