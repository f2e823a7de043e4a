// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config holds the manifests that programs compare others with.
package config

import "embed"

// Files are the rights of the manager and of people, and the webhooks, as every way to install Candor takes them.
//
//go:embed rbac/*.yaml webhook/manifests.yaml
var Files embed.FS
