//! As much of JSON Schema as our schemas use; any other keyword is a failure.

use regex::Regex;
use serde_json::Value;

/// Checks a value.
///
/// # Errors
/// Where the value is not as the schema says.
pub fn accepts(schema: &Value, value: &Value) -> Result<(), String> {
    check(schema, schema, value)
}

fn check(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let rules = match schema {
        Value::Bool(true) => return Ok(()),
        Value::Object(rules) => rules,
        other => return Err(format!("{value} is not allowed by {other}")),
    };
    for (keyword, rule) in rules {
        let good = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" => true,
            "$ref" => {
                let place = rule.as_str().unwrap().trim_start_matches('#');
                check(root, root.pointer(place).unwrap(), value)?;
                true
            }
            "type" => is_of_type(rule.as_str().unwrap(), value),
            "enum" => rule.as_array().unwrap().contains(value),
            "const" => rule == value,
            "anyOf" => rule
                .as_array()
                .unwrap()
                .iter()
                .any(|choice| check(root, choice, value).is_ok()),
            "oneOf" => {
                let choices = rule.as_array().unwrap().iter();
                choices
                    .filter(|choice| check(root, choice, value).is_ok())
                    .count()
                    == 1
            }
            "not" => check(root, rule, value).is_err(),
            "properties" | "additionalProperties" | "propertyNames" => {
                object(root, rules, keyword, value)?;
                true
            }
            "required" => value.as_object().is_none_or(|object| {
                let names = rule.as_array().unwrap();
                names
                    .iter()
                    .all(|name| object.contains_key(name.as_str().unwrap()))
            }),
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    check(root, rule, item)?;
                }
                true
            }
            "minItems" | "maxItems" | "maxLength" | "minimum" | "maximum" => {
                within(keyword, rule.as_f64().unwrap(), value)
            }
            "pattern" => {
                let pattern = Regex::new(rule.as_str().unwrap()).unwrap();
                value.as_str().is_none_or(|text| pattern.is_match(text))
            }
            other => panic!("the validator does not know `{other}`"),
        };
        if !good {
            return Err(format!("{value} breaks {keyword}: {rule}"));
        }
    }
    Ok(())
}

fn is_of_type(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        other => panic!("the validator does not know the type `{other}`"),
    }
}

fn object(
    root: &Value,
    rules: &serde_json::Map<String, Value>,
    keyword: &str,
    value: &Value,
) -> Result<(), String> {
    let known = rules.get("properties").and_then(Value::as_object);
    for (name, field) in value.as_object().into_iter().flatten() {
        let property = known.and_then(|known| known.get(name));
        match (keyword, property) {
            ("properties", Some(schema)) => check(root, schema, field)?,
            ("additionalProperties", None) => {
                check(root, &rules[keyword], field).map_err(|error| format!("`{name}`: {error}"))?
            }
            ("propertyNames", _) => check(root, &rules[keyword], &Value::from(name.as_str()))?,
            (_, _) => {}
        }
    }
    Ok(())
}

fn within(keyword: &str, bound: f64, value: &Value) -> bool {
    match keyword {
        "minItems" => value
            .as_array()
            .is_none_or(|list| list.len() as f64 >= bound),
        "maxItems" => value
            .as_array()
            .is_none_or(|list| list.len() as f64 <= bound),
        "maxLength" => value
            .as_str()
            .is_none_or(|text| text.chars().count() as f64 <= bound),
        "minimum" => value.as_f64().is_none_or(|number| number >= bound),
        _ => value.as_f64().is_none_or(|number| number <= bound),
    }
}
