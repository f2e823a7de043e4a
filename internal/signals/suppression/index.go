// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package suppression

import "iter"

// index finds the scopes that may cover an entry, by their places in a list: a report and a namespace may hold thousands of
// either. A scope that names identifiers is found by these, else by its packages; one that names neither covers every entry.
type index struct {
	ids, packages map[string][]int
	every         []int
}

func indexOf(scopes []*Scope) index {
	x := index{ids: map[string][]int{}, packages: map[string][]int{}}
	for i, scope := range scopes {
		switch {
		case scope.ids != nil:
			for id := range scope.ids {
				x.ids[id] = append(x.ids[id], i)
			}
		case scope.packages != nil:
			for name := range scope.packages {
				x.packages[name] = append(x.packages[name], i)
			}
		default:
			x.every = append(x.every, i)
		}
	}
	return x
}

// of returns the places of the scopes that may cover an entry, some more than once.
func (x index) of(entry named) iter.Seq[int] {
	return func(yield func(int) bool) {
		each := func(places []int) bool {
			for _, i := range places {
				if !yield(i) {
					return false
				}
			}
			return true
		}
		if !each(x.every) {
			return
		}
		for _, id := range entry.ids {
			if !each(x.ids[id]) {
				return
			}
		}
		for _, name := range entry.packages {
			if !each(x.packages[name]) {
				return
			}
		}
	}
}
