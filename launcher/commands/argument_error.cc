#include "launcher/commands/argument_error.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "launcher/config/nearest_name.h"
#include "launcher/keys/key_suggestion.h"

namespace trireme {
namespace {

/// The innermost command on the command line.
struct InnermostCommand {
  explicit InnermostCommand(const CLI::App& program) : app(&program), words(program.get_name()) {
    while (!app->get_subcommands().empty()) {
      app = app->get_subcommands().front();
      words += " " + app->get_name();
    }
    for (const CLI::App* one : app->get_subcommands({})) subcommands.push_back(one->get_name());
  }
  const CLI::App* app;
  std::string words;  // "trireme data chat"
  std::vector<std::string> subcommands;
};

bool is_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && word != "--";
}

/// Options of mpirun that users give to this program; empty: `name` is none of them.
std::string mpirun_option_remedy(const InnermostCommand& command, const std::string& name) {
  constexpr std::string_view kCount[] = {"np", "n", "c"};
  constexpr std::string_view kHosts[] = {"host", "H", "hostfile", "machinefile"};
  constexpr std::string_view kOthers[] = {"bind-to",
                                          "map-by",
                                          "rank-by",
                                          "oversubscribe",
                                          "mca",
                                          "x",
                                          "wdir",
                                          "report-bindings",
                                          "allow-run-as-root",
                                          "tag-output",
                                          "use-hwthread-cpus",
                                          "display-map",
                                          "nolocal",
                                          "prefix"};
  const auto is_in = [&](auto& names) { return std::ranges::find(names, name) != std::end(names); };
  const bool is_other = is_in(kOthers);
  if (!is_other && !is_in(kCount) && !is_in(kHosts)) return "";
  if (command.app->get_name() == "run") {
    if (is_in(kCount)) return "the number of ranks is --ranks N";
    if (is_in(kHosts)) return "a host file is --hosts FILE";
    return fmt::format("options of mpirun follow after --: trireme run JOB -- {}{} ...",
                       name.size() > 1 ? "--" : "-", name);
  }
  return "options of mpirun stand before the program: mpirun -np N ... trireme";
}

std::string unknown_option(const InnermostCommand& command, const std::string& word) {
  const std::string option = word.substr(0, word.find('='));
  const std::string name = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  std::vector<std::string> known;
  for (const CLI::Option* one : command.app->get_options()) {
    known.insert(known.end(), one->get_lnames().begin(), one->get_lnames().end());
  }
  const std::string remedy = mpirun_option_remedy(command, name);
  if (!remedy.empty()) return fmt::format("`{}` has no option {}; {}", command.words, option, remedy);
  const std::string nearest = nearest_name(name, known);
  const std::string text = fmt::format("`{}` has no option {}", command.words, option);
  if (2 * static_cast<std::size_t>(edit_distance(name, nearest)) <= name.size()) {
    return fmt::format("{}; did you mean --{}?", text, nearest);
  }
  if (std::ranges::find(known, "set") == known.end()) return text;
  return fmt::format("{}; --set section.key=value sets keys of the job: {}", text, suggest_key("", name));
}

}  // namespace

std::string describe_argument_error(const CLI::App& app, const CLI::ParseError& error) {
  const bool needs_more = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (!needs_more && dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return error.what();
  const InnermostCommand command(app);
  const std::vector<std::string> rest = command.app->remaining();
  if (const auto option = std::ranges::find_if(rest, is_option); option != rest.end()) {
    return unknown_option(command, *option);
  }
  if (!command.subcommands.empty()) {
    const auto& names = command.subcommands;
    if (rest.empty()) return fmt::format("`{}` needs a command: {}", command.words, fmt::join(names, ", "));
    return fmt::format("`{}` has no command {}; did you mean {}? Commands are {}", command.words,
                       rest.front(), nearest_name(rest.front(), names), fmt::join(names, ", "));
  }
  if (needs_more) return error.what();
  return fmt::format("`{}` takes no further argument {}", command.words, fmt::join(rest, " "));
}

}  // namespace trireme
