#include "launcher/keys/job_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <map>
#include <utility>

#include "launcher/families/diffusers_pipeline.h"
#include "launcher/families/hf_exchange.h"
#include "launcher/keys/config_keys.h"
#include "launcher/keys/config_value.h"
#include "launcher/keys/key_suggestion.h"
#include "launcher/keys/layout_keys.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/nesting.h"
#include "runtime/base/regular_file.h"
#include "runtime/data/class_names.h"

namespace trireme {
namespace {

std::string at(std::string_view source, const toml::source_region& region) {
  return fmt::format("{}:{}:{}", source, region.begin.line, region.begin.column);
}

/// A configuration while it is parsed.
struct Reading {
  JobConfig config;
  std::map<std::string, std::string> given;  // full name of a key -> where it was given last
};

void set_key(Reading& reading, const ConfigKey& key, const toml::node& node, const std::string& where) {
  const auto value = read_value(node, key.type);
  TRIREME_CHECK(value, "{}: {} needs {}, found {}", where, key.full_name(), describe(key.type),
                describe_node(node));
  check_value(key, *value, where);
  key.set(reading.config, *value);
  reading.given[key.full_name()] = where;
}

/// `keys`: the names in the section, as far as they are known.
[[noreturn]] void throw_unknown_section(std::string_view section, std::span<const std::string> keys,
                                        const std::string& where) {
  const auto sections = config_sections();
  std::string list;
  for (const std::string& known : sections) list += fmt::format("{}{}", list.empty() ? "" : ", ", known);
  throw Error(ErrorCode::kInvalidInput, "{}: unknown section [{}]; {} Sections are {}", where,
              shortened(std::string(section)), suggest_section(section, keys), list);
}

[[noreturn]] void throw_unknown_section(std::string_view section, const toml::table& table,
                                        const std::string& where) {
  std::vector<std::string> keys;
  for (const auto& [name, value] : table) keys.emplace_back(name.str());
  throw_unknown_section(section, keys, where);
}

const ConfigKey& require_key(std::string_view section, std::string_view name, const std::string& where) {
  std::string known;
  for (const ConfigKey& key : config_keys()) {
    if (key.section != section) continue;
    if (key.name == name) return key;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", key.name);
  }
  if (known.empty()) throw_unknown_section(section, std::vector{std::string(name)}, where);
  throw Error(ErrorCode::kInvalidInput, "{}: unknown key {}.{}; {} Keys of [{}] are {}", where, section,
              shortened(std::string(name)), suggest_key(section, name), section, known);
}

bool is_known(std::string_view section, std::string_view name) {
  return std::ranges::any_of(
      config_keys(), [&](const ConfigKey& key) { return key.section == section && key.name == name; });
}

bool is_section(std::string_view name) {
  const auto sections = config_sections();
  return std::ranges::find(sections, name) != sections.end();
}

/// `where` replaces the location of a key if `source` is empty.
void apply_section(Reading& reading, std::string_view section, const toml::table& keys,
                   std::string_view source, const std::string& where) {
  if (!is_section(section)) throw_unknown_section(section, keys, where);
  for (const auto& [name, value] : keys) {
    const std::string key_where = source.empty() ? where : at(source, name.source());
    const std::string inner = fmt::format("{}.{}", section, name.str());
    if (is_section(inner)) {
      TRIREME_CHECK(value.is_table(), "{}: {} is a section: [{}], or {{ key = value, ... }}; found {}",
                    key_where, inner, inner, describe_node(value));
      apply_section(reading, inner, *value.as_table(), source, key_where);
      continue;
    }
    if (value.is_table() && !is_known(section, name.str()))
      throw_unknown_section(inner, *value.as_table(), key_where);
    set_key(reading, require_key(section, name.str(), key_where), value, key_where);
  }
}

const ConfigKey& find_key(const std::string& full_name) {
  return *std::ranges::find(config_keys(), full_name, &ConfigKey::full_name);
}

/// Handles `parallel = "auto"` in place of a section: layout keys given before it are cleared.
void search_layout(Reading& reading, const toml::node& node, const std::string& where) {
  TRIREME_CHECK(node.is_string() && **node.as_string() == to_word(LayoutChoice::kAuto),
                "{}: parallel is a section, [parallel], or the word \"auto\"; found {}", where,
                describe_node(node));
  clear_layout(reading.config);
  for (const ConfigKey& key : config_keys()) {
    if (is_layout_key(key)) reading.given.erase(key.full_name());
  }
  set_key(reading, find_key("parallel.layout"), node, where);
}

void apply_table(Reading& reading, const toml::table& root, std::string_view source) {
  for (const auto& [section, node] : root) {
    const std::string where = at(source, section.source());
    if (section.str() == "parallel" && node.is_value()) {
      search_layout(reading, node, where);
      continue;
    }
    TRIREME_CHECK(!node.is_array_of_tables(), "{}: [[{}]] is a list of tables; write [{}]", where,
                  section.str(), section.str());
    const toml::table* keys = node.as_table();
    TRIREME_CHECK(keys != nullptr || !is_section(section.str()),
                  "{}: {} is a section: [{}], with keys below it; found {}", where, section.str(),
                  section.str(), describe_node(node));
    TRIREME_CHECK(keys != nullptr, "{}: {} is outside of any section; {} A key must be below its [section]",
                  where, shortened(std::string(section.str())), suggest_key("", section.str()));
    apply_section(reading, section.str(), *keys, source, where);
  }
}

toml::table parse_toml(std::string_view text, std::string_view source) {
  const int nesting = toml_nesting(text);
  TRIREME_CHECK(nesting <= kMaxNesting, "{}: nested {} levels deep; the limit is {}", source, nesting,
                kMaxNesting);
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorCode::kInvalidInput, "{}: not valid TOML: {}", at(source, error.source()),
                error.description());
  }
}

/// The value of an override as a TOML table {v = value}. A value that is not TOML is a string.
toml::table parse_override_value(const std::string& text) {
  if (toml_nesting(text) > kMaxNesting) return toml::table{{"v", text}};
  try {
    toml::table table = toml::parse("v = " + text);
    if (table.size() == 1) return table;  // a newline in the value could add keys
  } catch (const toml::parse_error&) {
  }
  return toml::table{{"v", text}};
}

/// The table key that contains the entry `name`: the key ops for "ops.attention"; null: none.
const ConfigKey* find_table_key(std::string_view section, std::string_view name) {
  const std::string_view table = name.substr(0, name.find('.'));
  if (table == name) return nullptr;
  const auto keys = config_keys();
  const auto found = std::ranges::find_if(keys, [&](const ConfigKey& key) {
    return is_table(key.type) && key.section == section && key.name == table;
  });
  return found == keys.end() ? nullptr : &*found;
}

/// Sets one entry of a table and keeps the others: precision.ops.attention=fp32.
void set_entry(JobConfig& config, const ConfigKey& key, const std::string& entry, const toml::node& node,
               const std::string& where) {
  const bool of_numbers = key.type == KeyType::kNumberTable;
  const auto value = read_value(node, of_numbers ? KeyType::kNumber : KeyType::kString);
  TRIREME_CHECK(value && !entry.empty(), "{}: {}.{} needs {}, found {}", where, key.full_name(),
                shortened(entry), of_numbers ? "a number" : "a string", describe_node(node));
  ConfigValue all = key.get(config);
  if (of_numbers) {
    std::get<std::map<std::string, double>>(all)[entry] = std::get<double>(*value);
  } else {
    std::get<std::map<std::string, std::string>>(all)[entry] = std::get<std::string>(*value);
  }
  check_value(key, all, where);
  key.set(config, all);
}

/// End of the longest section name that a key's full name begins with: "train.lora" in "train.lora.rank".
std::string::size_type end_of_section(const std::string& name) {
  for (auto dot = name.rfind('.'); dot != std::string::npos && dot > 0; dot = name.rfind('.', dot - 1)) {
    if (is_section(name.substr(0, dot))) return dot;
  }
  return name.find('.');
}

void apply_override(Reading& reading, const std::string& text) {
  const std::string readable = as_utf8({text}).front();
  const std::string where = "--set " + shortened(readable);
  TRIREME_CHECK(readable == text, "{}: is not UTF-8, so a checkpoint could not store it", where);
  const auto equals = text.find('=');
  TRIREME_CHECK(equals != std::string::npos, "{}: needs section.key=value", where);
  const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
  if (name == "parallel") return search_layout(reading, *parse_override_value(value).get("v"), where);
  const auto dot = name.find('.');
  TRIREME_CHECK(dot != std::string::npos, "{}: needs section.key=value; {}", where, suggest_key("", name));
  toml::table table = parse_override_value(value);
  if (is_section(name) && table["v"].is_table())
    return apply_section(reading, name, *table["v"].as_table(), "", where);
  const std::string::size_type end = end_of_section(name);
  const std::string section = name.substr(0, end), key_name = name.substr(end + 1);
  if (const ConfigKey* of_entry = find_table_key(section, key_name)) {
    return set_entry(reading.config, *of_entry, key_name.substr(of_entry->name.size() + 1), *table.get("v"),
                     where);
  }
  const ConfigKey& key = require_key(section, key_name, where);
  // data.train=2024 names a folder, not a number.
  if (key.type == KeyType::kString && !table["v"].is_string()) table = toml::table{{"v", value}};
  set_key(reading, key, *table.get("v"), where);
}

/// A given key must have an effect; a key with its default value need not.
void check_effects(const Reading& reading) {
  for (const auto& [name, where] : reading.given) {
    const ConfigKey& key = find_key(name);
    const KeyScope* scope = key.scope_without(reading.config);
    if (scope == nullptr) continue;
    if (!scope->refuses_defaults && key.get(reading.config) == key.get(JobConfig()))
      continue;  // a default value requests nothing
    const std::string remedy =
        scope->refuses_defaults
            ? fmt::format("remove it, or set {}", scope->decided_by)
            : fmt::format("remove it (or reset a key of a shared job file with --set {}={})", name,
                          to_toml(key.get(JobConfig())));
    throw Error(ErrorCode::kInvalidInput, "{}: {} is for {} and has no effect with {} = {}: {}", where, name,
                scope->text, scope->decided_by, to_toml(find_key(scope->decided_by).get(reading.config)),
                remedy);
  }
}

/// The model in the folder that model.from names. Errors name the key.
ModelSection shape_in(const std::string& from, std::vector<std::string>& notes) {
  try {
    return model_of_hf_folder(*hf_folder_in(from), &notes);  // the key's rule requires "hf:"
  } catch (const Error& error) {
    throw error.saying(fmt::format("model.from = \"{}\": {}", from, error.what()));
  }
}

/// Resolves model.from: copies the values of the imported configuration to all keys that are not given.
void take_shape(Reading& reading) {
  JobConfig& config = reading.config;
  const std::string from = std::exchange(config.model.from, "");
  if (from.empty()) return;
  TRIREME_CHECK(config.model.size.empty(),
                "model.from = \"{}\" and model.size = \"{}\" both define the shape", from, config.model.size);
  JobConfig shape;
  std::vector<std::string> notes;
  shape.model = shape_in(from, notes);
  if (const auto diffusion = scheduler_of_pipeline(*hf_folder_in(from))) shape.diffusion = *diffusion;
  if (config.model.init_from.empty())
    std::ranges::for_each(notes, log_warning);  // otherwise the run's log prints them
  TRIREME_CHECK(!reading.given.contains("model.name") || config.model.name == shape.model.name,
                "model.from = \"{}\" has model.name = \"{}\", not \"{}\"", from, shape.model.name,
                config.model.name);
  const JobConfig defaults;
  for (const ConfigKey& key : config_keys()) {
    const bool is_imported = key.section == "model" || key.section == "diffusion";
    if (!is_imported || key.get(config) != key.get(defaults)) continue;
    // A key that has its default value counts as not given, except model.task, whose default is a choice.
    if (key.name != "task" || !reading.given.contains(key.full_name())) key.set(config, key.get(shape));
  }
}

/// Applies an optimizer's published defaults where they differ from the table's.
void take_optimizer_defaults(Reading& reading) {
  OptimizerSection& optimizer = reading.config.optimizer;
  const auto is_open = [&](const char* key) { return !reading.given.contains(key); };
  if (optimizer.name == OptimizerConfig::Kind::kLion && is_open("optimizer.betas")) {
    optimizer.betas = {0.9, 0.99};
  }
  if (optimizer.name != OptimizerConfig::Kind::kMuon) return;
  if (is_open("optimizer.momentum")) optimizer.momentum = 0.95;
  if (is_open("optimizer.nesterov")) optimizer.nesterov = true;
}

void open_searched_layout(Reading& reading) {
  ParallelSection& parallel = reading.config.parallel;
  if (!parallel.is_searched()) return;
  for (const ConfigKey& key : config_keys()) {
    if (is_layout_key(key) && !reading.given.contains(key.full_name())) parallel.open.insert(key.name);
  }
}

Reading read_config(std::string_view toml, std::string_view source, std::span<const std::string> overrides) {
  Reading reading;
  apply_table(reading, parse_toml(toml, source), source);
  for (const std::string& text : overrides) apply_override(reading, text);
  take_shape(reading);
  take_optimizer_defaults(reading);
  open_searched_layout(reading);
  check_config(reading.config);
  return reading;
}

}  // namespace

JobConfig parse_config(std::string_view toml, std::string_view source,
                       std::span<const std::string> overrides) {
  Reading reading = read_config(toml, source, overrides);
  check_effects(reading);
  return std::move(reading.config);
}

JobConfig parse_written_config(std::string_view toml, std::string_view source) {
  return read_config(toml, source, {}).config;
}

JobConfig load_config(const std::filesystem::path& path, std::span<const std::string> overrides) {
  constexpr std::size_t kMaxJobBytes = 1 << 20;
  std::error_code error;
  TRIREME_CHECK(
      std::filesystem::exists(path, error),
      "job file {0}: No such file or directory. `trireme init gpt --out {0}` writes one to start from",
      path.string());
  const std::string text = read_text_file({.path = path, .what = "job file", .max_bytes = kMaxJobBytes});
  return parse_config(text, path.string(), overrides);
}

}  // namespace trireme
