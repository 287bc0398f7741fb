package config

import "hearsay/internal/box"

const (
	wantKey    = "must be 32 bytes in base58; \"hearsay keygen\" makes one"
	wantPublic = "must be 32 bytes in base58: the public key that your contact gave you"
)

// secret reads a base58 secret.
func (s *section) secret(name string) (key box.SecretKey, ok bool) {
	v, ok := s.get(name, kindString)
	if !ok {
		return key, false
	}
	key, err := box.ParseSecret(v.str)
	if err != nil {
		s.errorf(v.line, name, wantKey)
	}
	return key, err == nil
}

// public reads a base58 public key.
func (s *section) public(name string) (key box.PublicKey, ok bool) {
	v, ok := s.get(name, kindString)
	if !ok {
		return key, false
	}
	key, err := box.ParsePublic(v.str)
	if err != nil {
		s.errorf(v.line, name, wantPublic)
	}
	return key, err == nil
}
