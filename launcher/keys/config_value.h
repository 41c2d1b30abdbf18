// The TOML value of a key: reading it by the key's type, checking it by the key's rule, describing it in
// messages.
#pragma once

#include <toml++/toml.h>

#include <optional>
#include <string>

#include "launcher/keys/config_keys.h"

namespace trireme {

/// At most 200 bytes of `text`, so that a long value does not hide the message.
std::string shortened(std::string text);

/// The value as found, for messages: `the string "abc"`.
std::string describe_node(const toml::node& node);

/// Null if the node's value is not of the type.
std::optional<ConfigValue> read_value(const toml::node& node, KeyType type);

/// Throws Error(kInvalidInput) if the key's rule rejects the value, or Error(kUnsupported) if this build
/// lacks the feature. The message names place, key, value and allowed values. Numbers are also checked after
/// rounding to fp32, because runs compute with fp32.
void check_value(const ConfigKey& key, const ConfigValue& value, const std::string& where);

}  // namespace trireme
