// The example at the end of each command's --help.
#pragma once

namespace CLI {
class App;
}

namespace trireme {

/// Appends an example to the help of every command. Call after all commands were added.
void add_help_examples(CLI::App& app);

}  // namespace trireme
