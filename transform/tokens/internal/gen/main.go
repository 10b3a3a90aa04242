// Gen writes the merge tables of package tokens, one file for each encoding
// it counts itself, from the vocabulary of github.com/tiktoken-go/tokenizer.
//
// A token of more than one byte is written as the two tokens that byte-pair
// encoding joins last to make it: merging needs only that pair, and the token's
// bytes follow from it. The format is described in merges.go of package tokens.
// Run this program with go generate.
package main

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"log"
	"os"

	"github.com/tiktoken-go/tokenizer"
)

// encodings are those that have a merge file, and how many tokens each has.
var encodings = []struct {
	name   tokenizer.Encoding
	tokens int
}{
	{tokenizer.Cl100kBase, 100256},
	{tokenizer.O200kBase, 199998},
}

func main() {
	log.SetFlags(0)
	for _, e := range encodings {
		table, err := table(e.name, e.tokens)
		if err != nil {
			log.Fatalf("%s: %v", e.name, err)
		}
		var file bytes.Buffer
		w, err := flate.NewWriter(&file, flate.BestCompression)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := w.Write(table); err != nil {
			log.Fatal(err)
		}
		if err := w.Close(); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(string(e.name)+".merges", file.Bytes(), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// table returns the merge file of an encoding before it is compressed.
func table(name tokenizer.Encoding, tokens int) ([]byte, error) {
	words, err := vocabulary(name, tokens)
	if err != nil {
		return nil, err
	}
	return encode(words)
}

// vocabulary returns the bytes of that many tokens, by rank.
func vocabulary(name tokenizer.Encoding, tokens int) ([]string, error) {
	codec, err := tokenizer.Get(name)
	if err != nil {
		return nil, err
	}
	words := make([]string, 0, tokens)
	for id := range tokens {
		word, err := codec.Decode([]uint{uint(id)})
		if err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	if more, err := codec.Decode([]uint{uint(tokens)}); err == nil {
		return nil, fmt.Errorf("there are more than %d tokens: %q", tokens, more)
	}
	return words, nil
}

// encode returns the 256 single bytes in the order of their ranks and then, for
// each rank above, the pair of lower ranks it is made of.
func encode(words []string) ([]byte, error) {
	ranks := make(map[string]int, len(words))
	for id, w := range words {
		ranks[w] = id
	}
	if len(ranks) != len(words) {
		return nil, fmt.Errorf("%d tokens are there twice", len(words)-len(ranks))
	}
	var plain []byte
	for id, w := range words[:256] {
		if len(w) != 1 {
			return nil, fmt.Errorf("rank %d is %q, not a byte", id, w)
		}
		plain = append(plain, w[0])
	}
	plain = binary.AppendUvarint(plain, uint64(len(words)-256))
	// Left halves first, then right halves: each compresses better among its own.
	lefts, rights := make([]int, 0, len(words)), make([]int, 0, len(words))
	for id := 256; id < len(words); id++ {
		parts := lastPair(words[id], id, ranks)
		if len(parts) != 2 {
			return nil, fmt.Errorf("rank %d, %q, cannot be merged from its bytes: ends as %q", id, words[id], parts)
		}
		l, r := ranks[parts[0]], ranks[parts[1]]
		if l >= id || r >= id {
			return nil, fmt.Errorf("rank %d, %q, is made of later ones %d and %d", id, words[id], l, r)
		}
		lefts, rights = append(lefts, l), append(rights, r)
	}
	for _, half := range [][]int{lefts, rights} {
		for _, v := range half {
			plain = append(plain, byte(v), byte(v>>8), byte(v>>16))
		}
	}
	return plain, nil
}

// lastPair merges word from its bytes as if the ranks from id on did not exist.
func lastPair(word string, id int, ranks map[string]int) []string {
	parts := make([]string, len(word))
	for i := range len(word) {
		parts[i] = word[i : i+1]
	}
	for len(parts) > 1 {
		best, at := id, -1
		for i := range len(parts) - 1 {
			if r, ok := ranks[parts[i]+parts[i+1]]; ok && r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			break
		}
		parts[at] += parts[at+1]
		parts = append(parts[:at+1], parts[at+2:]...)
	}
	return parts
}
