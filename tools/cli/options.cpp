#include "tools/cli/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "config/nearest.hpp"
#include "config/options/load_config.hpp"
#include "tools/cli/estimate.hpp"
#include "tools/cli/inspect.hpp"

namespace troupe {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string type_name(const option_spec& spec) {
  if (spec.name == "model") return "MODEL";
  if (std::holds_alternative<std::uint64_t runtime_config::*>(spec.field)) return "SIZE";
  if (!spec.choices.empty()) return "WORD";
  if (is_list(spec) || std::holds_alternative<std::string runtime_config::*>(spec.field))
    return "TEXT";
  return spec.unit == "s" ? "SECONDS" : "N";
}

/// "context of a sequence [0: the model's] (tokens, 0..16777216)"
std::string description(const option_spec& spec) {
  static const runtime_config defaults;
  auto value = value_text(spec, defaults);
  if (!spec.unset.empty()) value += (value.empty() ? "" : ": ") + spec.unset;
  std::string allowed = is_flag(spec) ? "" : range_text(spec);
  if (!spec.unit.empty()) allowed = spec.unit + (allowed.empty() ? "" : ", ") + allowed;
  return spec.meaning + " [" + value + "]" + (allowed.empty() ? "" : " (" + allowed + ")");
}

/// `troupe serve` on the command line: collects the given words; load_config() checks them.
class serve_command {
 public:
  explicit serve_command(CLI::App& app)
      : app_(*app.add_subcommand("serve", "serve MODEL over HTTP and WebSocket")) {
    app_.allow_extras();
    app_.footer(
        "Every option is also a variable (TROUPE_MAX_NUM_SEQS) and a key of the --config file "
        "(max-num-seqs).\n"
        "Precedence: option, variable, file, default.");
    for (const auto& spec : option_table()) options_.push_back(add(spec));
    json_ = app_.add_flag("--json")
                ->description("the same as --log-format json")
                ->group("log and debugging");
    config_ = app_.add_option("--config")->description("TOML file of settings [TROUPE_CONFIG]");
    config_->type_name("FILE")->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    check_ = app_.add_flag("--check-config")
                 ->description("check all settings, open no model, serve nothing");
    print_ = app_.add_flag("--print-config")
                 ->description("print the effective settings as TOML, serve nothing");
    for (auto* option : {config_, check_, print_}) option->group("configuration");
  }

  bool given() const { return app_.parsed(); }

  /// The settings in force, or what to print. `problems`: found so far.
  parsed_command finish(int argc, const char* const* argv,
                        const std::vector<std::string>& environment,
                        std::vector<std::string> problems) const {
    config_sources sources;
    sources.environment = environment;
    if (config_->count() > 1)
      problems.push_back("--config: given " + std::to_string(config_->count()) + " times");
    if (config_->count() > 0) sources.file = config_->results().back();
    if (config_->count() > 0 && sources.file.empty()) problems.push_back("--config: no file named");
    collect(argc, argv, sources.options, problems);
    auto loaded = load_config(sources);
    add_unexpected(loaded.config, problems);
    for (auto& problem : loaded.problems) problems.push_back(std::move(problem));
    const bool serves = check_->count() + print_->count() == 0;
    if (serves && loaded.config.model.empty()) problems.push_back("MODEL: no model file given");
    if (!problems.empty()) {
      std::string text;
      for (const auto& problem : problems) text += "troupe: " + problem + "\n";
      return {early_exit{2, text}, std::move(loaded.warnings)};
    }
    if (print_->count() > 0)
      return {early_exit{0, config_toml(loaded)}, std::move(loaded.warnings)};
    if (check_->count() > 0)
      return {early_exit{
                  0, fmt::format(
                         "the configuration is sound: {} of {} settings are given, the others are "
                         "defaults\n",
                         loaded.origins.size(), option_table().size())},
              std::move(loaded.warnings)};
    return {std::move(loaded.config), std::move(loaded.warnings)};
  }

 private:
  CLI::Option* add(const option_spec& spec) {
    std::string names = spec.name == "model" ? "model" : "";
    auto given = spec.aliases;
    given.push_back(spec.name);
    for (const auto& name : given)
      names += (names.empty() ? "" : ",") + std::string(name.size() == 1 ? "-" : "--") + name;
    if (is_flag(spec))
      return app_.add_flag(names + ",!--no-" + spec.name)
          ->description(description(spec))
          ->group(spec.group);
    auto* option = app_.add_option(names)->description(description(spec))->group(spec.group);
    // Takes one word at a time and checks nothing: counts and values are checked together with the
    // other sources.
    return option->type_name(type_name(spec))->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }

  /// The words that reached each option; a single value that came several times is a problem.
  void collect(int argc, const char* const* argv, std::vector<given_option>& out,
               std::vector<std::string>& problems) const {
    for (std::size_t i = 0; i < options_.size(); ++i) {
      const auto& spec = option_table()[i];
      const auto words = options_[i]->results();
      if (words.empty()) continue;
      const auto as = written_as(spec, argc, argv);
      if (is_list(spec))
        out.push_back({&spec, as, {given_value::kind::list, "a list", words}});
      else if (words.size() == 1)
        out.push_back({&spec, as, {given_value::kind::word, words[0], {}}});
      else
        problems.push_back(as + ": given " + std::to_string(words.size()) +
                           " times: " + joined(words));
    }
    if (json_->count() == 0) return;
    const auto* format = find_option("log-format");
    if (std::any_of(out.begin(), out.end(), [&](const auto& one) { return one.spec == format; }))
      problems.push_back("--json: --log-format is given too");
    out.push_back({format, "--json", {given_value::kind::word, "json", {}}});
  }

  /// The name the user wrote: --ctx-size for max-model-len.
  static std::string written_as(const option_spec& spec, int argc, const char* const* argv) {
    auto names = spec.aliases;
    names.push_back("no-" + spec.name);
    for (int i = 1; i < argc; ++i) {
      const std::string word(argv[i]);
      for (const auto& name : names)
        if (word.substr(0, word.find('=')) == (name.size() == 1 ? "-" : "--") + name)
          return word.substr(0, word.find('='));
    }
    return "--" + spec.name;
  }

  void add_unexpected(const runtime_config& config, std::vector<std::string>& problems) const {
    bool after_unknown = false;  // then a bare word is most likely the unknown option's value
    for (const auto& extra : app_.remaining()) {
      const bool option = extra.size() > 1 && extra[0] == '-';
      if (option)
        problems.push_back(unknown_option(extra));
      else if (!after_unknown)
        problems.push_back("'" + extra + "': unexpected argument" +
                           (config.model.empty() ? "" : "; the model is " + config.model));
      after_unknown = option && extra.find('=') == std::string::npos;
    }
  }

  /// "--prot: unknown option; did you mean --port?"
  std::string unknown_option(const std::string& given) const {
    std::vector<std::string> names;
    for (const auto* option : app_.get_options())
      for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    const auto word = given.substr(0, given.find('='));
    const auto near = nearest(word, names);
    return word + ": unknown option" +
           (near.empty() ? "; --help lists them all" : "; did you mean " + near + "?");
  }

  CLI::App& app_;
  std::vector<CLI::Option*> options_;  ///< as in option_table()
  CLI::Option *json_ = nullptr, *config_ = nullptr, *check_ = nullptr, *print_ = nullptr;
};

}  // namespace

parsed_command parse_options(int argc, const char* const* argv,
                             const std::vector<std::string>& environment, bool on_terminal) {
  CLI::App app{
      "Troupe serves a language model to chat clients and gives their cache blocks back when they "
      "leave.",
      "troupe"};
  app.set_version_flag("--version", std::string("troupe ") + TROUPE_VERSION);
  app.require_subcommand(1);
  const serve_command serve(app);
  const estimate_command estimate(app);
  const inspect_command inspect(app);
  const auto* reference =
      app.add_subcommand("config-reference", "print the table of all settings as Markdown");
  std::vector<std::string> problems;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // help or version
    std::ostringstream text, errors;
    app.exit(e, text, errors);
    return {early_exit{0, text.str()}, {}};
  } catch (const CLI::ArgumentMismatch& e) {  // the last option came without its value
    const std::string what = e.what();
    problems.push_back(what.substr(0, what.find(':')) + ": a value is missing");
  } catch (const CLI::ParseError& e) {
    if (!serve.given())
      return {early_exit{
                  2, std::string("troupe: ") + e.what() + "; troupe --help lists the commands\n"},
              {}};
    problems.push_back(e.what());
  }
  if (reference->parsed()) return {early_exit{0, option_reference()}, {}};
  if (!serve.given() && !problems.empty())
    return {early_exit{2, "troupe: " + problems[0] + "\n"}, {}};
  if (estimate.given()) return {estimate.run(on_terminal), {}};
  if (inspect.given()) return {inspect.run(on_terminal), {}};
  return serve.finish(argc, argv, environment, std::move(problems));
}

}  // namespace troupe
