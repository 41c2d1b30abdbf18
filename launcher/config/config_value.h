// The value of a key as TOML writes it: read as the key's type, checked by its rule, described in
// messages.
#pragma once

#include <toml++/toml.h>

#include <optional>
#include <string>

#include "launcher/config/config_keys.h"

namespace trireme {

/// At most 200 bytes of `text`, for messages: a megabyte would hide what is wrong with it.
std::string shortened(std::string text);

/// The value as found, for messages: the string "abc".
std::string describe_node(const toml::node& node);

/// Nothing where the node holds no value of the type.
std::optional<ConfigValue> read_value(const toml::node& node, KeyType type);

/// Throws Error(kInvalidInput), or Error(kUnsupported) for what this build lacks, naming the place, the key,
/// the value and what is allowed, unless the key's rule allows the value; numbers also as fp32 rounds them,
/// as a run computes with those.
void check_value(const ConfigKey& key, const ConfigValue& value, const std::string& where);

}  // namespace trireme
