#include "launcher/cluster/cluster_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <optional>

#include "launcher/config/nearest_name.h"
#include "launcher/keys/config_keys.h"
#include "runtime/base/error.h"
#include "runtime/base/regular_file.h"

namespace trireme {
namespace {

/// A table of the file while it is parsed; check_keys() refuses keys that were not read.
class Section {
 public:
  Section(const toml::table& table, std::string source, std::string name)
      : table_(table), source_(std::move(source)), name_(std::move(name)) {}

  const toml::node* take(const std::string& key) {
    known_.push_back(key);
    return table_.get(key);
  }

  void number(const std::string& key, double& value) {
    if (const toml::node* node = take(key)) value = require<double>(*node, key, "a number");
  }
  void text(const std::string& key, std::string& value) {
    if (const toml::node* node = take(key)) value = require<std::string>(*node, key, "a string");
  }
  void flag(const std::string& key, bool& value) {
    if (const toml::node* node = take(key)) value = require<bool>(*node, key, "true or false");
  }
  template <class Part>
  void numbers(Part& part, std::span<const ClusterField<Part>> fields) {
    for (const ClusterField<Part>& field : fields) {
      number(field.name, part.*field.value);
      // A field without a default is initialised out of range.
      if (!table_.contains(field.name) && part.*field.value < field.low) {
        missing_.push_back(fmt::format("{} is missing: a number from {} to {}", full_name(field.name),
                                       field.low, field.high));
      }
    }
  }

  /// A nested table; null if absent.
  const toml::table* table(const std::string& key) {
    const toml::node* node = take(key);
    TRIREME_CHECK(node == nullptr || node->is_table(), "{}: {} needs a section [{}]", at(*node),
                  full_name(key), full_name(key));
    return node == nullptr ? nullptr : node->as_table();
  }

  /// Refuses keys that were not read, and missing numbers.
  void check_keys() const {
    for (const auto& [key, node] : table_) {
      const std::string found(key.str());
      if (std::find(known_.begin(), known_.end(), found) != known_.end()) continue;
      throw Error(ErrorCode::kInvalidInput, "{}: unknown key {}; did you mean {}?", at(node),
                  full_name(found), full_name(nearest_name(found, known_)));
    }
    TRIREME_CHECK(missing_.empty(), "{}: {}", source_, missing_.front());
  }

  std::string full_name(const std::string& key) const { return name_.empty() ? key : name_ + "." + key; }

 private:
  std::string at(const toml::node& node) const {
    return fmt::format("{}:{}:{}", source_, node.source().begin.line, node.source().begin.column);
  }

  template <class Value>
  Value require(const toml::node& node, const std::string& key, const char* what) const {
    const std::optional<Value> value = node.value<Value>();
    TRIREME_CHECK(value, "{}: {} needs {}", at(node), full_name(key), what);
    return *value;
  }

  const toml::table& table_;
  std::string source_, name_;
  std::vector<std::string> known_, missing_;
};

/// Calls read(name, section) for each table in the table `kind`.
template <class Read>
void for_each_part(Section& file, const std::string& source, const std::string& kind, const Read& read) {
  const toml::table* parts = file.table(kind);
  if (parts == nullptr) return;
  for (const auto& [key, node] : *parts) {
    const std::string name(key.str());
    TRIREME_CHECK(node.is_table(), "{}: {}.{} needs a section [{}.{}]", source, kind, name, kind, name);
    Section section(*node.as_table(), source, kind + "." + name);
    read(name, section);
    section.check_keys();
  }
}

std::vector<MeasuredOp> read_calls(const toml::node& node, const std::string& where) {
  std::vector<MeasuredOp> calls;
  const toml::array* rows = node.as_array();
  TRIREME_CHECK(rows != nullptr && !rows->empty(), "{} needs calls: [[bytes, operations, us], ...]", where);
  for (const toml::node& row : *rows) {
    const toml::array* numbers = row.as_array();
    const std::size_t size = numbers != nullptr ? numbers->size() : 0;
    TRIREME_CHECK(size == 3 || size == 4,
                  "{}: a call is [bytes, operations, us] or [bytes, operations, us, inner]", where);
    double values[4] = {};
    for (std::size_t i = 0; i < size; ++i) {
      const std::optional<double> value = numbers->get(i)->value<double>();
      TRIREME_CHECK(value, "{}: a call is numbers, [bytes, operations, us] or [bytes, operations, us, inner]",
                    where);
      values[i] = *value;
    }
    calls.push_back({.bytes = values[0], .operations = values[1], .us = values[2], .inner = values[3]});
  }
  return calls;
}

ClusterDevice read_device(const std::string& name, Section& section, const std::string& source) {
  ClusterDevice device{.name = name, .family = name};
  section.text("family", device.family);
  section.text("inside", device.inside);
  section.text("between", device.between);
  section.text("calls_of", device.calls_of);
  section.numbers(device, device_fields());
  std::string type(trireme::name(device.type));
  section.text("type", type);
  TRIREME_CHECK(type == "cuda" || type == "cpu", "{}: {} = \"{}\" must be cuda or cpu", source,
                section.full_name("type"), type);
  device.type = type == "cpu" ? DeviceType::kCpu : DeviceType::kCuda;
  if (const toml::table* measured = section.table("measured")) {
    for (const auto& [op, calls] : *measured) {
      device.measured[std::string(op.str())] =
          read_calls(calls, fmt::format("{}:{}: {}.\"{}\"", source, calls.source().begin.line,
                                        section.full_name("measured"), op.str()));
    }
  }
  if (const toml::table* peaks = section.table("peak_tflops")) {
    Section dtypes(*peaks, source, section.full_name("peak_tflops"));
    for (const char* dtype : {"fp32", "tf32", "fp16", "bf16", "fp8"}) {
      double tflops = 0;
      if (dtypes.take(dtype) == nullptr) continue;
      dtypes.number(dtype, tflops);
      device.peak_tflops[dtype] = tflops;
    }
    dtypes.check_keys();
  }
  return device;
}

/// Copies the calls of the device named by `calls_of`.
void share_calls(Cluster& cluster, const std::string& source) {
  for (ClusterDevice& device : cluster.devices) {
    if (device.calls_of.empty()) continue;
    TRIREME_CHECK(device.measured.empty(), "{}: devices.{} has both calls_of and measured", source,
                  device.name);
    const auto found = std::ranges::find(cluster.devices, device.calls_of, &ClusterDevice::name);
    TRIREME_CHECK(found != cluster.devices.end() && found->calls_of.empty(),
                  "{}: devices.{}.calls_of = \"{}\": there is no such device with calls of its own", source,
                  device.name, device.calls_of);
    device.measured = found->measured;
  }
}

/// Ignores the keys of former versions.
void read_framework(Section& section, const std::string& source, ClusterFramework& framework) {
  section.text("name", framework.name);
  std::string attention = framework.attention == AttentionKernel::kFlash ? "flash" : "unfused";
  section.text("attention", attention);
  TRIREME_CHECK(attention == "flash" || attention == "unfused",
                "{}: framework.attention = \"{}\" must be flash or unfused", source, attention);
  framework.attention = attention == "flash" ? AttentionKernel::kFlash : AttentionKernel::kUnfused;
  section.flag("recompute", framework.recompute);
  for (const char* former : {"scattered_messages", "gradient_bytes", "elementwise_passes",
                             "activation_passes", "exposed_exchange", "optimizer_bytes"}) {
    section.take(former);
  }
  section.numbers(framework, framework_fields());
}

std::string measured_text(const ClusterDevice& device) {
  if (device.measured.empty() || !device.calls_of.empty()) return "";
  std::string text = fmt::format("\n[devices.{}.measured]  # [bytes, operations, us, inner]\n",
                                 to_toml(ConfigValue(device.name)));
  for (const auto& [op, calls] : device.measured) {
    text += fmt::format("{} = [\n", to_toml(ConfigValue(op)));
    for (const MeasuredOp& call : calls) {
      const std::string inner = call.inner > 0 ? fmt::format(", {}", call.inner) : "";
      text += fmt::format("  [{}, {}, {:.4g}{}],\n", call.bytes, call.operations, call.us, inner);
    }
    text += "]\n";
  }
  return text;
}

std::string quoted(const std::string& text) {
  return to_toml(ConfigValue(text));
}

std::string number_text(double number) {
  return fmt::format("{:.6g}", number);
}

template <class Part>
std::string numbers_text(const Part& part, std::span<const ClusterField<Part>> fields) {
  std::string text;
  for (const ClusterField<Part>& field : fields) {
    text += fmt::format("{} = {}{}\n", field.name, number_text(part.*field.value),
                        field.fit_width > 0 ? "  # fitted by calibrate" : "");
  }
  return text;
}

}  // namespace

Cluster parse_cluster(std::string_view text, const std::string& source) {
  toml::table root;
  try {
    root = toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorCode::kInvalidInput, "{}:{}:{}: {}", source, error.source().begin.line,
                error.source().begin.column, error.description());
  }
  Cluster cluster;
  Section file(root, source, "");
  file.text("name", cluster.name);
  double ranks_per_node = cluster.ranks_per_node;
  file.number("ranks_per_node", ranks_per_node);
  TRIREME_CHECK(ranks_per_node >= 1 && ranks_per_node <= 1 << 20 && ranks_per_node == int(ranks_per_node),
                "{}: ranks_per_node = {} must be a whole number from 1 on", source, ranks_per_node);
  cluster.ranks_per_node = static_cast<int>(ranks_per_node);
  for_each_part(file, source, "devices", [&](const std::string& name, Section& section) {
    cluster.devices.push_back(read_device(name, section, source));
  });
  for_each_part(file, source, "links", [&](const std::string& name, Section& section) {
    cluster.links.push_back({.name = name});
    section.numbers(cluster.links.back(), link_fields());
  });
  share_calls(cluster, source);
  if (const toml::table* table = file.table("host")) {
    Section section(*table, source, "host");
    for (const char* former : {"collective_us", "message_us"}) section.take(former);
    section.numbers(cluster.host, host_fields());
    section.check_keys();
  }
  if (const toml::table* table = file.table("framework")) {
    Section section(*table, source, "framework");
    read_framework(section, source, cluster.framework);
    section.check_keys();
  }
  if (const toml::table* table = file.table("cost")) {
    Section section(*table, source, "cost");
    section.numbers(cluster.cost, cost_fields());
    section.check_keys();
  }
  file.check_keys();
  check_cluster(cluster, source);
  return cluster;
}

Cluster read_cluster(const std::filesystem::path& file) {
  return parse_cluster(read_text_file({.path = file, .what = "cluster file", .max_bytes = 1 << 20}),
                       file.string());
}

std::string to_toml(const Cluster& cluster) {
  std::string text =
      fmt::format("name = {}\nranks_per_node = {}\n", quoted(cluster.name), cluster.ranks_per_node);
  for (const ClusterDevice& device : cluster.devices) {
    std::string peaks;
    for (const auto& [dtype, tflops] : device.peak_tflops) {
      peaks += fmt::format("{}{} = {}", peaks.empty() ? "" : ", ", dtype, number_text(tflops));
    }
    text += fmt::format("\n[devices.{}]\nfamily = {}\ninside = {}\n", quoted(device.name),
                        quoted(device.family), quoted(device.inside));
    if (!device.between.empty()) text += fmt::format("between = {}\n", quoted(device.between));
    if (!device.calls_of.empty()) text += fmt::format("calls_of = {}\n", quoted(device.calls_of));
    text += fmt::format("type = \"{}\"\npeak_tflops = {{ {} }}\n{}", trireme::name(device.type), peaks,
                        numbers_text(device, device_fields()));
    text += measured_text(device);
  }
  for (const ClusterLink& link : cluster.links) {
    text += fmt::format("\n[links.{}]\n{}", quoted(link.name), numbers_text(link, link_fields()));
  }
  text += "\n[host]\n" + numbers_text(cluster.host, host_fields());
  const ClusterFramework& framework = cluster.framework;
  text +=
      fmt::format("\n[framework]\nname = {}\nattention = \"{}\"\nrecompute = {}\n{}", quoted(framework.name),
                  framework.attention == AttentionKernel::kFlash ? "flash" : "unfused", framework.recompute,
                  numbers_text(framework, framework_fields()));
  text += "\n[cost]\n" + numbers_text(cluster.cost, cost_fields());
  return text;
}

}  // namespace trireme
