// Gradients of embeddings as rows: values that know some rows of a table and stand for zeros elsewhere. They have no memory of their own, so
// operators and reads refuse them; to_dense makes the table. Two passes over one batch give them alike, in eager and captured.
#pragma once
#include <string>

#include "engine/core/value.h"

namespace gemel {

/// A value of the table's spec that is made of rows.
/// @param table  float32 [rows, width]
Value table_of(RowValues rows, const Spec& table);
/// The rows of a value that is made of them; null for any other.
const RowValues* row_values(const Value& value);
/// The table with its zeros; what is dense stays as it is, and so does a whole table. Rows add up in the order in which they are given.
/// @param into  memory for it where it is made, or empty
Value to_dense(Value value, const Value& into = {});
/// @throws UsageError for rows. @param who  begins the message, as "add: input 0"
void refuse_rows(const std::string& who, const Value& value);

/// Contributions to a gradient, of which the first may be missing: rows follow rows; beside what is dense they are made dense.
void accumulate(Value& sum, Value more);

}  // namespace gemel
