// Package e2e holds the end-to-end tests: the built daemon with real IRC clients
// from Debian. They run where the clients are installed; with HEARSAY_E2E=1, as in
// CI, a missing client is a failure.
package e2e
