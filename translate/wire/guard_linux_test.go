package wire

import (
	"strings"
	"syscall"
	"testing"
)

// TestNothingOutsideIsRead of a text that begins and ends where memory does.
func TestNothingOutsideIsRead(t *testing.T) {
	page := syscall.Getpagesize()
	memory, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(memory)
	for _, at := range []int{0, 2 * page} {
		if err := syscall.Mprotect(memory[at:at+page], syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	texts := [][]byte{toolsList(4), []byte(`["` + strings.Repeat("plain ", 60) + `"]`), []byte(`["` + strings.Repeat("ä", 200) + `"]`)}
	blocks := hasBlocks
	defer func() { hasBlocks = blocks }()
	for _, hasBlocks = range []bool{blocks, false} {
		for _, text := range texts {
			for n := range min(len(text), 400) {
				for _, part := range [][]byte{text[:len(text)-n], text[n:], text[len(text)-n:]} {
					part = part[:min(len(part), page)]
					for _, b := range [][]byte{memory[page : page+len(part) : page+len(part)], memory[2*page-len(part) : 2*page : 2*page]} {
						copy(b, part)
						for i := range min(8, len(b)) {
							skipValue(b, i, 0)
							skipString(b, i)
							skipText(b, i)
						}
						new(Message).Scan(b, nil)
					}
				}
			}
		}
	}
}
