// Row gradients: gradients of embedding tables that hold some rows; all other rows are zero. They have no memory of their own, so operators
// and reads refuse them; to_dense makes a dense table. Eager and captured passes over one batch give equal rows.
#pragma once
#include <string>

#include "engine/core/value.h"

namespace gemel {

/// Makes a row gradient of a table.
/// @param table  float32 [rows, width]
Value table_of(RowValues rows, const Spec& table);
/// Rows of a row gradient; null for any other value.
const RowValues* row_values(const Value& value);
/// Converts a row gradient to a dense table; returns dense values as they are. Rows add up in the order in which they are given.
/// @param into  memory for the table if it has to be made, or empty
Value to_dense(Value value, const Value& into = {});
/// @throws UsageError if the value is a row gradient. @param who  begins the message, such as "add: input 0"
void refuse_rows(const std::string& who, const Value& value);

/// Adds a contribution to a gradient; `sum` may be empty. Concatenates two row gradients; converts a row gradient that meets a dense one.
void accumulate(Value& sum, Value more);

}  // namespace gemel
