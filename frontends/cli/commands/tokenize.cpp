// gemel tokenize: texts to the numbers of a vocabulary, a line each.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <limits>

#include "datasets/texts/open_tokenizer.h"
#include "engine/base/error.h"
#include "frontends/cli/command.h"
#include "frontends/cli/options/arguments.h"

namespace gemel::cli {

int tokenize(const Arguments& arguments) {
  po::options_description options("options");
  auto option = options.add_options();
  option("vocab", po::value<std::string>()->required(),
         "BERT's vocab.txt, a tokenizer.json, or a folder with one of them or with GPT-2's vocab.json and merges.txt");
  option("cased", po::bool_switch(), "letters and accents stay as they are; of vocab.txt alone, tokenizer.json says it");
  option("max-length", po::value<std::int64_t>()->default_value(0), "at most so many tokens, [CLS] and [SEP] among them; 0: all");
  const auto values =
      parse("tokenize",
            "Reads a text a line, UTF-8, from standard input, and writes the numbers of its tokens: those of BERT's vocabularies between [CLS] and [SEP].",
            options, arguments);
  const auto tokenizer =
      datasets::open_tokenizer(values["vocab"].as<std::string>(), values["cased"].as<bool>() ? datasets::Letters::kept : datasets::Letters::lower);
  const std::int64_t given = whole_number(values, "max-length", 0, 1e9), longest = given ? given : std::numeric_limits<std::int64_t>::max();
  std::int64_t number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    try {
      fmt::print("{}\n", fmt::join(tokenizer->for_model(line, std::nullopt, longest).ids, " "));
    } catch (const DataError& e) {
      throw DataError(fmt::format("tokenize: line {}: {}", number, e.what()));
    }
  }
  if (std::cin.bad()) throw DataError("tokenize: standard input cannot be read");
  return 0;
}

}  // namespace gemel::cli
