#include "launcher/records/run_record.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/render/json_text.h"
#include "runtime/base/lines_error.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> kEventNames = {"started", "resumed", "failed", "verdict"};

constexpr std::pair<const char*, std::string ErrorFacts::*> kTexts[] = {
    {"field", &ErrorFacts::field},   {"value", &ErrorFacts::value},   {"file", &ErrorFacts::file},
    {"host", &ErrorFacts::host},     {"action", &ErrorFacts::action}, {"block", &ErrorFacts::block},
    {"tensor", &ErrorFacts::tensor}, {"remedy", &ErrorFacts::remedy}};

constexpr std::pair<const char*, int ErrorFacts::*> kNumbers[] = {
    {"rank", &ErrorFacts::rank},
    {"micro_batch", &ErrorFacts::micro_batch},
    {"system_error", &ErrorFacts::system_error}};

/// Throws for an unknown name.
RunRecord::Event event_of(const std::string& wanted) {
  const auto found = std::ranges::find(kEventNames, wanted);
  TRIREME_CHECK(found != kEventNames.end(), "there is no event \"{}\"", wanted);
  return static_cast<RunRecord::Event>(found - kEventNames.begin());
}

ErrorCode code_of(const std::string& wanted) {
  const auto code = find_error_code(wanted);
  TRIREME_CHECK(code, "there is no error code \"{}\"", wanted);
  return *code;
}

void add_failure(Json& json, const RunRecord& record) {
  json["code"] = name(record.code);
  json["message"] = record.message;
  for (const auto& [key, member] : kTexts) {
    if (!(record.facts.*member).empty()) json[key] = record.facts.*member;
  }
  for (const auto& [key, member] : kNumbers) {
    if (record.facts.*member != ErrorFacts{}.*member) json[key] = record.facts.*member;
  }
}

void read_failure(const nlohmann::json& json, RunRecord& record) {
  record.code = code_of(json.at("code"));
  record.message = json.at("message");
  for (const auto& [key, member] : kTexts) record.facts.*member = json.value(key, "");
  for (const auto& [key, member] : kNumbers) {
    if (json.contains(key)) record.facts.*member = read_integer<int>(json, key);
  }
}

}  // namespace

std::string_view name(RunRecord::Event event) {
  return kEventNames[static_cast<std::size_t>(event)];
}

std::int64_t unix_time_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

RunRecord record_of(RunRecord::Event event, const Error& error) {
  return {.event = event,
          .time_ns = unix_time_ns(),
          .code = error.code(),
          .message = shown_message(error),
          .facts = error.facts()};
}

std::string to_json(const RunRecord& record) {
  Json json = {{"event", name(record.event)},
               {"time_ns", record.time_ns},
               {"reporter", record.reporter},
               {"reporter_host", record.reporter_host}};
  if (record.is_failure()) add_failure(json, record);
  if (record.event == RunRecord::Event::kResumed) json["step"] = record.step;
  if (!record.memory.empty()) json["memory"] = record.memory;
  if (!record.hosts.empty()) json["hosts"] = record.hosts;
  return json_text(json);
}

std::optional<RunRecord> parse_record(std::string_view text) {
  const auto json = parse_small_json(text);
  if (!json.is_object()) return std::nullopt;
  try {
    RunRecord record{.event = event_of(json.at("event")),
                     .time_ns = read_integer<std::int64_t>(json, "time_ns"),
                     .reporter = read_integer<int>(json, "reporter"),
                     .reporter_host = json.at("reporter_host"),
                     .memory = json.value("memory", ""),
                     .hosts = json.value("hosts", std::vector<std::string>())};
    if (record.is_failure()) read_failure(json, record);
    if (record.event == RunRecord::Event::kResumed) record.step = read_integer<std::int64_t>(json, "step");
    return record;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace trireme
