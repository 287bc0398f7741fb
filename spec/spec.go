// Package spec holds hearsay's specification: the pages of this folder, and the
// test vectors that the codecs are held against.
package spec

import "embed"

// Vectors is the folder vectors: known answers as data, each file with its
// provenance in its first lines. Codec tests walk it and must fail where they
// find nothing.
//
//go:embed vectors
var Vectors embed.FS
