package vhost

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzNormalize: any JSON that a broker sends as arguments is normalized to equal values, which normalize to themselves and can
// be displayed.
func FuzzNormalize(f *testing.F) {
	for _, text := range []string{
		`{}`, `null`, `{"a":1,"b":-1,"c":1.0,"d":1.5,"e":1e3,"f":9223372036854775808,"g":1e999}`, `{"a":{"b":[1,"x",null,true,{}]}}`, `{"":""}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var given map[string]any
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		if decoder.Decode(&given) != nil {
			return
		}
		once := Normalize(given)
		if twice := Normalize(once); !reflect.DeepEqual(once, twice) {
			t.Errorf("%v becomes %v when it is normalized again", once, twice)
		}
		for key, value := range given {
			if !SameValue(value, once[key]) {
				t.Errorf("%s: %v is not the same as %v", key, value, once[key])
			}
			if Display(value) == "" || Display(value) != Display(once[key]) {
				t.Errorf("%s: shown as %q and as %q", key, Display(value), Display(once[key]))
			}
		}
	})
}

// FuzzParseVersion: a parsed version is written in a form that parses to the same version.
func FuzzParseVersion(f *testing.F) {
	for _, text := range []string{"4.3.6", "4.0.0-rc.1", "3.10.8", "4", "", "4.x", "-1.0", "4.3+git", " 4.3", "99999999999999999999.1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		version, err := ParseVersion(text)
		if err != nil {
			return
		}
		if again, err := ParseVersion(version.String()); err != nil || again != version {
			t.Errorf("%q is %s, which is %v (%v)", text, version, again, err)
		}
	})
}
