package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

// runServiceAccountKey prints a new private key, which kube-apiserver requires for signing service account tokens.
func runServiceAccountKey() int {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		fmt.Fprintln(os.Stderr, "service-account-key:", err)
		return 1
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		fmt.Fprintln(os.Stderr, "service-account-key:", err)
		return 1
	}
	if err := pem.Encode(os.Stdout, &pem.Block{Type: "EC PRIVATE KEY", Bytes: der}); err != nil {
		fmt.Fprintln(os.Stderr, "service-account-key:", err)
		return 1
	}
	return 0
}
