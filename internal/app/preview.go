// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorcontroller "github.com/candor-dev/candor/internal/controller/candor"
)

// commandPreview is the one word that may follow the flags.
const commandPreview = "preview"

// parseCommand reads what follows the flags: nothing, or preview and a Finding.
func (o *Options) parseCommand(args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case args[0] != commandPreview:
		return fmt.Errorf("%q is no flag: flags are written --name=value", args[0])
	case len(args) != 2:
		return errors.New("preview takes one Finding, as NAMESPACE/NAME")
	}
	namespace, name, found := strings.Cut(args[1], "/")
	if !found || namespace == "" || name == "" {
		return fmt.Errorf("preview %s: a Finding is written NAMESPACE/NAME", args[1])
	}
	o.Preview = types.NamespacedName{Namespace: namespace, Name: name}
	return nil
}

// Preview writes to out the exact bytes that a model would be sent about a Finding, and to info what they are. It sends
// nothing.
func Preview(ctx context.Context, options Options, out, info io.Writer) error {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	reader, err := client.New(cfg, client.Options{Scheme: NewScheme()})
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	models, err := options.Models.models()
	if err != nil {
		return err
	}
	body, model, err := candorcontroller.Preview(ctx, reader, models, options.Preview)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(info, "%d bytes to %s for the model %s, SHA-256 %x. Nothing was sent.\n",
		len(body), model.Backend.Endpoint(), model.Settings.Model, sha256.Sum256(body)); err != nil {
		return err
	}
	_, err = out.Write(body)
	return err
}
