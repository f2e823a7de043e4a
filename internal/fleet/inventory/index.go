// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import "slices"

// index holds IDs, in their order, by a key that several may have. The empty key has none.
type index map[string][]string

func (x index) add(key, id string) {
	if key == "" {
		return
	}
	if at, exists := slices.BinarySearch(x[key], id); !exists {
		x[key] = slices.Insert(x[key], at, id)
	}
}

func (x index) remove(key, id string) {
	at, exists := slices.BinarySearch(x[key], id)
	switch {
	case !exists:
	case len(x[key]) == 1:
		delete(x, key)
	default:
		x[key] = slices.Delete(x[key], at, at+1)
	}
}
