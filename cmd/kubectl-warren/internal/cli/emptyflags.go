package cli

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// checkEmptyFlags returns an error if a flag is given and empty, such as --id "$ID" without an ID. Otherwise a purge would delete all
// messages, as without the flag. An empty --reason is the same as none. Flags of kubectl mean what they mean there.
func checkEmptyFlags(cmd *cobra.Command, _ []string) (err error) {
	cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if err == nil && flag.Changed && flag.Name != "reason" && isEmpty(flag.Value) {
			err = usageError("--%s is empty: give a value, or leave the flag out", flag.Name)
		}
	})
	return err
}

// isEmpty reports whether the value of a flag is empty or, for a list, whether it has no element or an empty one.
func isEmpty(value pflag.Value) bool {
	if list, isList := value.(pflag.SliceValue); isList {
		return len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")
	}
	return value.String() == ""
}
