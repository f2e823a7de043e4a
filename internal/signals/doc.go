// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signals decides what is worth knowing. It is pure: it reads nothing, writes nothing and knows no clock.
package signals
