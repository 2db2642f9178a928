//go:build tools

// Package flux names what `build` compiles.
package flux

import (
	_ "github.com/fluxcd/kustomize-controller"
)
