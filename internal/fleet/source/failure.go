// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/egress"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/netguard"
)

// Failed is the fault of a source that did not answer, or not as expected.
func Failed(format string, args ...any) *fault.Fault {
	return &fault.Fault{Kind: fault.Retry, Reason: fleetmanagementv1alpha1.ReasonSourceFailed, Err: fmt.Errorf(format, args...)}
}

// Invalid is the fault of a spec that cannot be followed until somebody changes it.
func Invalid(format string, args ...any) *fault.Fault {
	return &fault.Fault{Kind: fault.Terminal, Reason: fleetmanagementv1alpha1.ReasonSourceFailed, Err: fmt.Errorf(format, args...)}
}

// SecretUnreadable is the fault of a Secret without usable credentials. It ends when the Secret changes, which no spec tells.
func SecretUnreadable(format string, args ...any) *fault.Fault {
	return &fault.Fault{Kind: fault.Retry, Reason: fleetmanagementv1alpha1.ReasonSecretUnreadable, Err: fmt.Errorf(format, args...)}
}

// Unreachable says in fixed words why a connection failed. Libraries put addresses, users and numbers that change each time into
// their errors; nothing of that is told but which destination the guard refuses, what a certificate lacks, and where a redirect leads.
func Unreachable(err error) error {
	for _, known := range []error{netguard.ErrDisallowed, egress.ErrRedirect, egress.ErrBodyTooLarge} {
		if told := telling(err, known); told != nil {
			return told
		}
	}
	var (
		resolver    *net.DNSError
		certificate *tls.CertificateVerificationError
		unknown     x509.UnknownAuthorityError
		cleartext   tls.RecordHeaderError
		errno       syscall.Errno
		timeout     net.Error
	)
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("it takes too long")
	case errors.As(err, &resolver):
		return errors.New("the name of the server cannot be resolved")
	case errors.As(err, &certificate):
		return fmt.Errorf("the certificate of the server is not trusted: %w", certificate.Err)
	case errors.As(err, &unknown):
		return fmt.Errorf("the certificate of the server is not trusted: %w", unknown)
	case errors.As(err, &cleartext), errors.Is(err, http.ErrSchemeMismatch):
		return errors.New("the server does not speak TLS")
	case errors.As(err, &errno):
		return errors.New(errno.Error())
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("it takes too long")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the server ends the connection")
	default:
		return errors.New("the connection fails: check host and port, and whether the server is to be asked with TLS or without")
	}
}

// telling returns the part of err that begins with the words of known.
func telling(err, known error) error {
	if err == nil || !errors.Is(err, known) {
		return nil
	}
	if strings.HasPrefix(err.Error(), known.Error()) {
		return err
	}
	switch wrapper := err.(type) { //nolint:errorlint // each layer is looked at on its own
	case interface{ Unwrap() error }:
		return telling(wrapper.Unwrap(), known)
	case interface{ Unwrap() []error }:
		for _, part := range wrapper.Unwrap() {
			if told := telling(part, known); told != nil {
				return told
			}
		}
	}
	return known
}
