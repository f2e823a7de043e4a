// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package databases

import "syscall"

// endWithParent has a process end when this one does, however that ends.
func endWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }
