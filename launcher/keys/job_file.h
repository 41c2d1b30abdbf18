// A job file: read, checked, and written as the resolved configuration.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/config/config.h"

namespace trireme {

/// Parses TOML text, applies `overrides`, then checks every value. An override is "section.key=value"; the
/// value is TOML, or a bare word, which is read as a string. `source` names the text in messages. Throws
/// Error(kInvalidInput) with source:line:column and the key. A key that has no effect with this model is
/// refused too, unless it has its default value. Throws Error(kUnsupported) for values that this build does
/// not support yet.
JobConfig parse_config(std::string_view toml, std::string_view source,
                       std::span<const std::string> overrides = {});

/// parse_config for a file that a run wrote. Accepts keys without effect, which earlier builds wrote.
JobConfig parse_written_config(std::string_view toml, std::string_view source);

/// parse_config of a file.
JobConfig load_config(const std::filesystem::path& path, std::span<const std::string> overrides = {});

/// Checks rules between several keys. parse_config calls this; call it for configurations made in code.
void check_config(const JobConfig& config);

/// For a job that trains. Throws Error(kInvalidInput) if a decaying schedule has no step after its warm-up,
/// and therefore never reaches optimizer.lr. With "constant" returns a warning, because more steps would
/// continue the same schedule; else an empty string.
std::string check_schedule(const JobConfig& config);

/// A warning if adapters are trained on a base model with random weights; else empty.
std::string doubt_about_adapters(const JobConfig& config);

/// A warning if recorded pipeline steps were never tested on a device of this type; else empty.
std::string doubt_about_recorded_steps(const JobConfig& config, DeviceType device);

/// The resolved configuration: every key that has an effect, with its value. Deterministic, so ranks can
/// compare it. parse_config of the text returns the same configuration.
std::string to_toml(const JobConfig& config);

}  // namespace trireme
