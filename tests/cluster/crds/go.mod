// Only the CRDs are taken from this module: source-controller itself is not compiled.
module fencectl.dev/tests/cluster/crds

go 1.26

require github.com/fluxcd/source-controller v1.9.6
