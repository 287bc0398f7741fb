package p2p

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// The derived table of p2p facts, section 1.4, row by row.
func TestURLCanonicalText(t *testing.T) {
	for _, c := range []struct {
		in, want string
		kind     HostKind
		host     string
		port     string
	}{
		{"tcp+tls://1.2.3.4:9600", "tcp+tls://1.2.3.4:9600/", HostIPv4, "1.2.3.4", "9600"},
		{"TCP+TLS://Lilith0.Dark.FI:09600", "tcp+tls://lilith0.dark.fi:9600/", HostName, "lilith0.dark.fi", "9600"},
		{"tcp://[2001:DB8:0:0::1]:9600", "tcp://[2001:db8::1]:9600/", HostIPv6, "2001:db8::1", "9600"},
		{"tcp://[::ffff:1.2.3.4]:1", "tcp://[::ffff:102:304]:1/", HostIPv6, "::ffff:102:304", "1"},
		{"tcp://1:80", "tcp://0.0.0.1:80/", HostIPv4, "0.0.0.1", "80"},
		{"tcp://0x7f.1:80", "tcp://127.0.0.1:80/", HostIPv4, "127.0.0.1", "80"},
		{"tcp+tls://1.2.3:1", "tcp+tls://1.2.0.3:1/", HostIPv4, "1.2.0.3", "1"},
		{"tcp://1.2.3.4", "tcp://1.2.3.4/", HostIPv4, "1.2.3.4", ""},
		{"quic://EXAMPLE.com:1?upnp_igd=true", "quic://example.com:1/?upnp_igd=true", HostName, "example.com", "1"},
		{"tcp+tls://host:1/../a", "tcp+tls://host:1/a", HostName, "host", "1"},
		{"i2p://Foo.b32.i2p:9602", "i2p://Foo.b32.i2p:9602", HostName, "Foo.b32.i2p", "9602"},
		{"i2p://1.2.3.4:9602", "i2p://1.2.3.4:9602", HostName, "1.2.3.4", "9602"},
		{"unix:///tmp/sock", "unix:///tmp/sock", HostNone, "", ""},
		{"socks5://127.0.0.1:9050/abc.onion:9601", "socks5://127.0.0.1:9050/abc.onion:9601", HostIPv4, "127.0.0.1", "9050"},
		{"tls://1.2.3.4:1", "tls://1.2.3.4:1", HostName, "1.2.3.4", "1"},

		// The rules in the text and the two tables above it.
		{"tcp:1.2.3.4:5", "tcp://1.2.3.4:5/", HostIPv4, "1.2.3.4", "5"},
		{"tcp:/1.2.3.4:5", "tcp://1.2.3.4:5/", HostIPv4, "1.2.3.4", "5"},
		{`tcp:\\1.2.3.4:5\a\..\b`, "tcp://1.2.3.4:5/b", HostIPv4, "1.2.3.4", "5"},
		{"tcp:////h:5", "tcp://h:5/", HostName, "h", "5"},
		{"tcp://h:", "tcp://h/", HostName, "h", ""},
		{"tcp://h:0", "tcp://h:0/", HostName, "h", "0"},
		{"tcp://h:00", "tcp://h:0/", HostName, "h", "0"},
		{"tcp://h:65535", "tcp://h:65535/", HostName, "h", "65535"},
		{" \x01tcp://h:1/\t\n ", "tcp://h:1/", HostName, "h", "1"},
		{"t\ncp://h\t:1", "tcp://h:1/", HostName, "h", "1"},
		{"tcp://u:p@h:1/?a=b#f", "tcp://u:p@h:1/?a=b#f", HostName, "h", "1"},
		{"tcp://a@b@h:1", "tcp://a%40b@h:1/", HostName, "h", "1"},
		{"tcp://:@h:1", "tcp://h:1/", HostName, "h", "1"},
		{"tcp://%41.%62:1", "tcp://a.b:1/", HostName, "a.b", "1"},
		{"tcp://B\u00dcCHER.example:1", "tcp://xn--bcher-kva.example:1/", HostName, "xn--bcher-kva.example", "1"},
		{"tcp://h:1#f", "tcp://h:1/#f", HostName, "h", "1"},
		{"tcp://h:1/%2e%2E/./x/.", "tcp://h:1/x/", HostName, "h", "1"},
		{"tcp://h:1/a b\"?c d'e", "tcp://h:1/a%20b%22?c%20d%27e", HostName, "h", "1"},
		{"tcp://0377.0xFFFF:1", "tcp://255.0.255.255:1/", HostIPv4, "255.0.255.255", "1"},
		{"tcp://0377.0x.07.09:1", "", 0, "", ""},
		{"tcp://017.0X10.65535:1", "tcp://15.16.255.255:1/", HostIPv4, "15.16.255.255", "1"},
		{"tcp://1.2.3.4.:1", "tcp://1.2.3.4:1/", HostIPv4, "1.2.3.4", "1"},
		{"tcp://4294967295:1", "tcp://255.255.255.255:1/", HostIPv4, "255.255.255.255", "1"},
		{"tcp://4294967296:1", "", 0, "", ""},
		{"tcp://1.2.3.4.5:1", "", 0, "", ""},
		{"tcp://foo.0x4:1", "", 0, "", ""},
		{"tcp://foo.09:1", "", 0, "", ""},
		{"tcp://1e2:1", "tcp://1e2:1/", HostName, "1e2", "1"},
		{"tcp://[1:0:0:2:0:0:0:3]:1", "tcp://[1:0:0:2::3]:1/", HostIPv6, "1:0:0:2::3", "1"},
		{"tcp://[0:0:1:0:0:0:0:0]:1", "tcp://[0:0:1::]:1/", HostIPv6, "0:0:1::", "1"},
		{"tcp://[1:0:2:0:3:0:4:0]:1", "tcp://[1:0:2:0:3:0:4:0]:1/", HostIPv6, "1:0:2:0:3:0:4:0", "1"},
		{"tcp://[::]:1", "tcp://[::]:1/", HostIPv6, "::", "1"},
		{"i2p://[::1]:7", "i2p://[::1]:7", HostIPv6, "::1", "7"},
		{"i2p+tls://H.i2p:7/../x", "i2p+tls://H.i2p:7/x", HostName, "H.i2p", "7"},
		{"i2p:h:7", "i2p:h:7", HostNone, "", ""},
		{"unix:/.//a", "unix:/.//a", HostNone, "", ""},
		{"http://h:80", "http://h/", HostName, "h", ""},
		{"tor://Abc.ONION:9601", "tor://abc.onion:9601/", HostName, "abc.onion", "9601"},

		{"tcp+tls://1.2.3.256:1", "", 0, "", ""},
		{"tcp+tls://", "", 0, "", ""},
		{"tcp+tls://:9600", "", 0, "", ""},
		{"tcp+tls://h:70000", "", 0, "", ""},
		{"tcp+tls://h:65536", "", 0, "", ""},
		{"tcp+tls://ho st:1", "", 0, "", ""},
		{"tcp+tls://[fe80::1%25eth0]:1", "", 0, "", ""},
		{"tcp://[fe80::1%eth0]:1", "", 0, "", ""},
		{"tcp://[1.2.3.4]:1", "", 0, "", ""},
		{"tcp://[::1:1", "", 0, "", ""},
		{"tcp://[[::1]]:1", "", 0, "", ""},
		{"tcp://::1:1", "", 0, "", ""},
		{"tcp://h:1a", "", 0, "", ""},
		{"tcp://h:-1", "", 0, "", ""},
		{"tcp://u@:1", "", 0, "", ""},
		{"tcp://%00:1", "", 0, "", ""},
		{"tcp://%ff:1", "", 0, "", ""},
		{"tcp://a%:1", "", 0, "", ""},
		{"i2p://a b:1", "", 0, "", ""},
		{"i2p://:1", "", 0, "", ""},
		{"file:///etc/passwd", "", 0, "", ""},
		{"nothing", "", 0, "", ""},
		{"", "", 0, "", ""},
		{"1tcp://h:1", "", 0, "", ""},
		{"://h:1", "", 0, "", ""},
		{"tcp://\xff:1", "", 0, "", ""},
	} {
		u, err := ParseURL(c.in)
		if c.want == "" {
			if !errors.Is(err, ErrURL) || !u.IsZero() {
				t.Errorf("ParseURL(%q) = %q, %v, want ErrURL", c.in, u, err)
			}
			continue
		}
		if err != nil || u.String() != c.want {
			t.Errorf("ParseURL(%q) = %q, %v, want %q", c.in, u, err, c.want)
			continue
		}
		if u.HostKind() != c.kind || u.Host() != c.host || u.Port() != c.port || u.HasPort() != (c.port != "") {
			t.Errorf("%q: host kind %d, host %q, port %q", c.in, u.HostKind(), u.Host(), u.Port())
		}
		if again, err := ParseURL(u.String()); err != nil || again != u {
			t.Errorf("%q: canonical text is not stable: %q, %v", c.in, again, err)
		}
		if u.parts().join() != u {
			t.Errorf("%q: parts do not join", c.in)
		}
		if ip := u.IP(); ip.IsValid() != (c.kind == HostIPv4 || c.kind == HostIPv6) {
			t.Errorf("%q: IP %v", c.in, ip)
		}
	}
}

func TestURLChanges(t *testing.T) {
	u := MustParseURL("tcp+tls://1.2.3.4:9600/?source=upnp&x&y=")
	if got := u.WithoutPort().WithoutQuery().String(); got != "tcp+tls://1.2.3.4/" {
		t.Error(got)
	}
	if got := u.WithoutQuery().String(); got != "tcp+tls://1.2.3.4:9600/" {
		t.Error(got)
	}
	if got := u.WithoutQuery().WithPort(7).String(); got != "tcp+tls://1.2.3.4:7/" {
		t.Error(got)
	}
	if u.HostPort() != "1.2.3.4:9600" || u.Scheme() != "tcp+tls" || u.Path() != "/" || u.RawQuery() != "source=upnp&x&y=" {
		t.Error(u.HostPort(), u.Scheme(), u.Path(), u.RawQuery())
	}
	for _, c := range []struct {
		key, want string
		ok        bool
	}{{"source", "upnp", true}, {"x", "", true}, {"y", "", true}, {"z", "", false}, {"", "", false}} {
		if v, ok := u.QueryValue(c.key); v != c.want || ok != c.ok {
			t.Errorf("QueryValue(%q) = %q, %v", c.key, v, ok)
		}
	}
	if got := MustParseURL("tcp://[::1]:80").HostPort(); got != "[::1]:80" {
		t.Error(got)
	}
	v, err := u.WithScheme("tor+tls")
	if err != nil || v.String() != "tor+tls://1.2.3.4:9600/?source=upnp&x&y=" {
		t.Error(v, err)
	}
	// Neither direction between special and not: p2p facts, 1.4, 5.5.
	if _, err := u.WithScheme("i2p"); !errors.Is(err, ErrURL) {
		t.Error(err)
	}
	if _, err := MustParseURL("i2p://x.i2p:1").WithScheme("tcp"); !errors.Is(err, ErrURL) {
		t.Error(err)
	}
	if v, err := MustParseURL("i2p://x.i2p:1").WithScheme("i2p+tls"); err != nil || v.String() != "i2p+tls://x.i2p:1" {
		t.Error(v, err)
	}
	if MustParseURL("unix:///a").IsOpaque() || !MustParseURL("x:a").IsOpaque() || MustParseURL("x:/a").IsOpaque() {
		t.Error("IsOpaque")
	}
	var zero URL
	if !zero.IsZero() || zero.Host() != "" || zero.Scheme() != "" || zero.WithoutPort() != zero || zero.HostKind() != HostNone {
		t.Error("zero URL")
	}
}

func TestURLText(t *testing.T) {
	var u URL
	if err := u.UnmarshalText([]byte("tcp://h:1")); err != nil || u.String() != "tcp://h:1/" {
		t.Error(u, err)
	}
	if b, err := u.MarshalText(); err != nil || string(b) != "tcp://h:1/" {
		t.Errorf("%s, %v", b, err)
	}
	if err := u.UnmarshalText([]byte("nothing")); !errors.Is(err, ErrURL) || u.IsZero() {
		t.Error("a failed UnmarshalText must leave the value alone:", err)
	}
	if err := u.UnmarshalText(nil); err != nil || !u.IsZero() {
		t.Error(u, err)
	}
}

// Bounds: at MaxURLLen and one past it, before and after percent-encoding.
func TestURLLength(t *testing.T) {
	at := "tcp://h:1/" + strings.Repeat("a", MaxURLLen-len("tcp://h:1/"))
	if u, err := ParseURL(at); err != nil || u.String() != at {
		t.Error(err)
	}
	if _, err := ParseURL(at + "a"); !errors.Is(err, ErrURLTooLong) {
		t.Error(err)
	}
	if _, err := ParseURL(at[:len(at)-1] + " a"); !errors.Is(err, ErrURLTooLong) {
		t.Error(err)
	}
	if _, err := ParseURL(at[:len(at)-1] + "\""); !errors.Is(err, ErrURLTooLong) {
		t.Error(err)
	}
}

// DS-51: no address reaches a log through slog, and no parse error carries one.
func TestURLNotLogged(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	u := MustParseURL("tcp://192.0.2.77:1")
	_, err := ParseURL("tcp://192.0.2.77:99999")
	log.Info("x", "peer", u, "group", slog.GroupValue(slog.Any("u", u)), "err", err)
	fmt.Fprint(&b, err)
	if s := b.String(); strings.Contains(s, "192.0.2.77") || !strings.Contains(s, "[address]") {
		t.Error(s)
	}
}

// FuzzURL: no panic; what parses is stable, keeps its pieces and stays in bounds.
func FuzzURL(f *testing.F) {
	for _, s := range []string{
		"tcp+tls://1.2.3.4:9600", "TCP+TLS://Lilith0.Dark.FI:09600", "tcp://[2001:DB8:0:0::1]:9600", "tcp://0x7f.1:80",
		"quic://EXAMPLE.com:1?upnp_igd=true", "tcp+tls://host:1/../a", "i2p://Foo.b32.i2p:9602", "unix:///tmp/sock",
		"socks5://127.0.0.1:9050/abc.onion:9601", "x:/.//a", "x:a ?b #c ", `tcp:\\u:p@h\..`, "tcp://xn--a.\u00fc\u00ad:1", "tcp://%zz%41:1",
		"x:/..//a", "tcp://\u2488:1", "tcp://\uff10x1:1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := ParseURL(s)
		if err != nil {
			if !u.IsZero() {
				t.Fatal("a failed parse returned a URL")
			}
			return
		}
		again, err := ParseURL(u.String())
		if err != nil || again != u {
			t.Fatalf("%q -> %q -> %q, %v", s, u, again, err)
		}
		if u.parts().join() != u {
			t.Fatalf("%q: parts of %q join to %q", s, u, u.parts().join())
		}
		for _, c := range []byte(u.String()) {
			if c < ' ' || c >= 0x7f {
				t.Fatalf("%q: byte %#x in canonical text", s, c)
			}
		}
		if ip := u.IP(); (u.HostKind() == HostIPv4 && !ip.Is4()) || (u.HostKind() == HostIPv6 && !ip.Is6()) {
			t.Fatalf("%q: host kind %d, IP %v", s, u.HostKind(), ip)
		}
		for _, v := range []URL{u.WithoutPort(), u.WithoutQuery()} {
			if w, err := ParseURL(v.String()); err != nil || w != v {
				t.Fatalf("%q: %q is not canonical: %q, %v", s, v, w, err)
			}
		}
	})
}
