package tokens_test

import (
	"fmt"

	"github.com/dragoman-proxy/dragoman/transform/tokens"
)

func Example() {
	e, exact, err := tokens.ForModel("gpt-4o-mini", 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Name(), exact)
	fmt.Println(e.Count([]byte("An answer that fits the budget.")))

	c := e.Counter()
	defer c.Release()
	fmt.Fprint(c, "An answer that f")
	fmt.Fprint(c, "its the budget.")
	fmt.Println(c.Sum())

	// Output:
	// o200k_base true
	// 7
	// 7
}
