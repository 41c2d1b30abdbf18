#include "launcher/host/thread_stacks.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <limits>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr const char* kStackVariables[] = {"OMP_STACKSIZE", "GOMP_STACKSIZE"};

/// Parses "512", "64K", " 2 M " as libgomp does: in KiB without a unit. Null where libgomp ignores the value.
std::optional<std::int64_t> read_stack_size(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n", kUnits = "bkmg";
  const auto skip_blanks = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  };
  skip_blanks();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  skip_blanks();
  std::size_t unit = kUnits.find('k');
  if (!text.empty()) {
    unit = kUnits.find(static_cast<char>(std::tolower(static_cast<unsigned char>(text.front()))));
    if (unit == std::string_view::npos) return std::nullopt;
    text.remove_prefix(1);
    skip_blanks();
  }
  const std::int64_t factor = std::int64_t{1} << (10 * unit);
  if (!text.empty() || number > std::numeric_limits<std::int64_t>::max() / factor) return std::nullopt;
  return number * factor;
}

bool is_first_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const auto rank = environment_variable(name)) return *rank == "0";
  }
  return true;
}

}  // namespace

StackLimit stack_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0) return {};
  const auto bytes = [](rlim_t value) {
    return value == RLIM_INFINITY ? std::nullopt : std::optional(static_cast<std::int64_t>(value));
  };
  return {.soft = bytes(limit.rlim_cur), .hard = bytes(limit.rlim_max)};
}

std::vector<SmallStack> find_small_stacks(const StackLimit& limit, const EnvironmentLookup& lookup) {
  std::vector<SmallStack> small;
  for (const char* name : kStackVariables) {
    const auto text = lookup(name);
    const auto bytes = text ? read_stack_size(*text) : std::nullopt;
    if (!bytes) continue;
    if (*bytes < kLeastStackBytes)
      small.push_back({.cause = SmallStack::Cause::kVariable, .name = name, .value = *text});
    break;  // libgomp uses the first one that it can parse
  }
  if (limit.soft && *limit.soft < kLeastStackBytes)
    small.push_back({.cause = SmallStack::Cause::kLimit,
                     .name = "ulimit -s",
                     .value = fmt::format("{}", *limit.soft / 1024)});
  return small;
}

void refuse_huge_stacks(const EnvironmentLookup& lookup) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
  for (const char* name : kStackVariables) {
    const auto text = lookup(name);
    const auto bytes = text ? read_stack_size(*text) : std::nullopt;
    if (!bytes) continue;
    TRIREME_CHECK(*bytes < kMostBytes,
                  "{} = {}: no thread can have a stack of that size; unset it, or set it to 8M", name, *text);
    break;
  }
}

void refuse_small_stacks(const std::vector<SmallStack>& small) {
  if (small.empty()) return;
  const SmallStack& first = small.front();
  const bool is_variable = first.cause == SmallStack::Cause::kVariable;
  throw Error(ErrorCode::kInvalidInput,
              "{} {} {}: the stacks of threads would be too small; {}set it to {} KiB or more", first.name,
              is_variable ? "=" : "is", first.value, is_variable ? "unset it, or " : "",
              kLeastStackBytes / 1024);
}

bool raise_stack(const SmallStack& small) {
  std::string raised = fmt::format("{}K", kLeastStackBytes / 1024);
  if (small.cause == SmallStack::Cause::kVariable) {
    set_environment_variable(small.name.c_str(), raised.c_str());
  } else {
    rlimit limit{};
    constexpr rlim_t kUsual = 8 << 20;
    if (getrlimit(RLIMIT_STACK, &limit) != 0) return false;
    limit.rlim_cur = std::min(kUsual, limit.rlim_max);
    if (limit.rlim_cur < kLeastStackBytes || setrlimit(RLIMIT_STACK, &limit) != 0) return false;
    raised = fmt::format("{}", limit.rlim_cur / 1024);
  }
  if (is_first_rank())
    fmt::print(stderr, "trireme: warning: {} {} {} is too small for the stacks of threads: {} is taken\n",
               small.name, small.cause == SmallStack::Cause::kVariable ? "=" : "of", small.value, raised);
  return true;
}

}  // namespace trireme
