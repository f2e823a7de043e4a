// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package tenant

import "fmt"

// CheckWholeStack returns why something must not mean all that Fleet Management holds, having no matchers that could bound it; nil if
// it may.
func (r Rules) CheckWholeStack() error {
	if !r.Bound() {
		return nil
	}
	if err := r.Broken(); err != nil {
		return err
	}
	return fmt.Errorf("%s: whom it binds must not see every pipeline of the stack: have an administrator create the discovery", r.says(nil))
}
