package tokens

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

var update = flag.Bool("update", false, "write the merge files")

// merged are those that have a merge file, and how many tokens each has.
var merged = []struct {
	name   tokenizer.Encoding
	tokens int
}{
	{tokenizer.Cl100kBase, 100256},
	{tokenizer.O200kBase, 199998},
}

// TestMergeFilesAreOfTheVocabulary makes the merge files, one for each encoding that package tokens counts itself, from the vocabulary of
// github.com/tiktoken-go/tokenizer; -update writes them.
//
// A token of more than one byte is written as the two tokens that byte-pair encoding joins last to make it: merging needs only that
// pair, and the token's bytes follow from it. merges.go describes the format. Files are compared before compression: other versions
// of Go may compress otherwise.
func TestMergeFilesAreOfTheVocabulary(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	for _, e := range merged {
		want, err := tableOf(e.name, e.tokens)
		if err != nil {
			t.Fatal(err)
		}
		name := string(e.name) + ".merges"
		if *update {
			writeCompressed(t, name, want)
		}
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(flate.NewReader(bytes.NewReader(file)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is another vocabulary than the library's: run go test ./transform/tokens -run TestMergeFiles -update", name)
		}
	}
}

func writeCompressed(t *testing.T, name string, table []byte) {
	t.Helper()
	var file bytes.Buffer
	w, err := flate.NewWriter(&file, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(table); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestVocabulariesWithAnotherNumberOfTokensAreRefused: the next release of the library may have other tokens.
func TestVocabulariesWithAnotherNumberOfTokensAreRefused(t *testing.T) {
	for tokens, want := range map[int]string{100255: "more than 100255 tokens", 100257: "invalid token: 100256"} {
		if _, err := tableOf(tokenizer.Cl100kBase, tokens); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d tokens: %v, want %q", tokens, err, want)
		}
	}
}

// tableOf returns the merge file of an encoding before it is compressed.
func tableOf(name tokenizer.Encoding, tokens int) ([]byte, error) {
	words, err := vocabularyOf(name, tokens)
	if err != nil {
		return nil, err
	}
	return encodeTable(words)
}

// vocabularyOf returns the bytes of that many tokens, by rank.
func vocabularyOf(name tokenizer.Encoding, tokens int) ([]string, error) {
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

// encodeTable returns the 256 single bytes in the order of their ranks and then, for
// each rank above, the pair of lower ranks it is made of.
func encodeTable(words []string) ([]byte, error) {
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
