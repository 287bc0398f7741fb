package bench

import (
	"crypto/rand"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
)

// newHost makes a libp2p host that speaks TCP with TLS and yamux on loopback. It is
// put together by hand, because package libp2p itself brings transports that do not
// compile with our version of quic-go.
func newHost(b *testing.B) host.Host {
	b.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	must(b, err)
	id, err := peer.IDFromPrivateKey(key)
	must(b, err)
	store, err := pstoremem.NewPeerstore()
	must(b, err)
	must(b, store.AddPubKey(id, key.GetPublic()))
	must(b, store.AddPrivKey(id, key))
	bus := eventbus.NewBus()
	s, err := swarm.NewSwarm(id, store, bus)
	must(b, err)
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: yamux.DefaultTransport}}
	tls, err := libp2ptls.New(libp2ptls.ID, key, muxers)
	must(b, err)
	up, err := upgrader.New([]sec.SecureTransport{tls}, muxers, nil, nil, nil)
	must(b, err)
	transport, err := tcp.NewTCPTransport(up, nil, nil)
	must(b, err)
	must(b, s.AddTransport(transport))
	must(b, s.Listen(ma.StringCast("/ip4/127.0.0.1/tcp/0")))
	h, err := basichost.NewHost(s, &basichost.HostOpts{EventBus: bus})
	must(b, err)
	h.Start()
	b.Cleanup(func() {
		_ = h.Close()
		_ = store.Close()
	})
	return h
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
