//go:build race

package tests

// effort divides the size of large tests.
const effort = 8

// oneByOne: with the race detector these tests compute more than they wait.
const oneByOne = true
