// The commands that show runs, one `<name>_command.cc` each.
#pragma once

#include "launcher/commands/commands.h"

namespace trireme {

// Each adds its subcommand with options to `app`, and sets `chosen` if the command line selects it.
void add_report_command(CLI::App& app, Command& chosen);
void add_top_command(CLI::App& app, Command& chosen);
void add_watch_command(CLI::App& app, Command& chosen);

}  // namespace trireme
