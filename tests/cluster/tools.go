//go:build tools

// Package cluster names the commands that `build` compiles, so that `go mod tidy` keeps them.
package cluster

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
)
