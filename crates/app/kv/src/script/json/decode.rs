//! From JSON to values of Lua.

use crate::script::raised::located;
use mlua::{Lua, Value};

/// A token, under the name that messages give it.
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Wrong(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Text(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Wrong(why) => why,
        }
    }
}

struct Decoder<'a> {
    lua: &'a Lua,
    bytes: &'a [u8],
    at: usize,
    depth_max: usize,
    invalid: bool,
}

/// Reads one value, which is all there is.
pub(super) fn decode(
    lua: &Lua,
    bytes: &[u8],
    depth_max: usize,
    invalid: bool,
) -> mlua::Result<Value> {
    if let [0, _, ..] | [_, 0, ..] = bytes {
        return Err(located(
            lua,
            "JSON parser does not support UTF-16 or UTF-32",
        ));
    }
    let mut decoder = Decoder {
        lua,
        bytes,
        at: 0,
        depth_max,
        invalid,
    };
    let (token, start) = decoder.next();
    let value = decoder.value(token, start, 0)?;
    match decoder.next() {
        (Token::End, _) => Ok(value),
        (token, start) => Err(decoder.unexpected("the end", &token, start)),
    }
}

impl Decoder<'_> {
    fn unexpected(&self, expected: &str, found: &Token, start: usize) -> mlua::Error {
        let (found, place) = (found.name(), start + 1);
        located(
            self.lua,
            &format!("Expected {expected} but found {found} at character {place}"),
        )
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// The next token, and where it begins.
    fn next(&mut self) -> (Token, usize) {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        let start = self.at;
        if start >= self.bytes.len() {
            return (Token::End, start);
        }
        let single = match self.peek(0) {
            b'{' => Some(Token::ObjectBegin),
            b'}' => Some(Token::ObjectEnd),
            b'[' => Some(Token::ArrayBegin),
            b']' => Some(Token::ArrayEnd),
            b':' => Some(Token::Colon),
            b',' => Some(Token::Comma),
            _ => None,
        };
        if let Some(token) = single {
            self.at += 1;
            return (token, start);
        }
        let rest = self.bytes.get(start..).unwrap_or_default();
        let words = [
            (&b"true"[..], Token::Boolean(true)),
            (b"false", Token::Boolean(false)),
            (b"null", Token::Null),
        ];
        for (word, token) in words {
            if rest.starts_with(word) {
                self.at += word.len();
                return (token, start);
            }
        }
        match self.peek(0) {
            b'"' => self.text(start),
            b'-' | b'0'..=b'9' | b'+' | b'i' | b'I' | b'n' | b'N' => (self.number(rest), start),
            _ => (Token::Wrong("invalid token"), start),
        }
    }

    fn number(&mut self, rest: &[u8]) -> Token {
        let signed = usize::from(matches!(rest.first(), Some(b'-' | b'+')));
        let body = rest.get(signed..).unwrap_or_default();
        let sign = if rest.first() == Some(&b'-') {
            -1.0
        } else {
            1.0
        };
        let lower = body.get(..8).unwrap_or(body).to_ascii_lowercase();
        for (word, value) in [
            (&b"infinity"[..], f64::INFINITY),
            (b"inf", f64::INFINITY),
            (b"nan", f64::NAN),
        ] {
            if lower.starts_with(word) {
                if !self.invalid {
                    return Token::Wrong("invalid number");
                }
                self.at += signed + word.len();
                return Token::Number(sign * value);
            }
        }
        if rest.first() == Some(&b'+') || !body.first().is_some_and(u8::is_ascii_digit) {
            return Token::Wrong("invalid token");
        }
        if lower.starts_with(b"0x") {
            return self.hexadecimal(body, signed, sign);
        }
        if !self.invalid && body.len() > 1 && body[0] == b'0' && body[1].is_ascii_digit() {
            return Token::Wrong("invalid number");
        }
        let digits = |from: usize| {
            let rest = body.get(from..).unwrap_or_default();
            rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
        };
        let mut end = digits(0);
        if body.get(end) == Some(&b'.') {
            end += 1 + digits(end + 1);
        }
        if matches!(body.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(body.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + sign);
            if exponent > 0 {
                end += 1 + sign + exponent;
            }
        }
        let text = std::str::from_utf8(body.get(..end).unwrap_or_default()).unwrap_or_default();
        self.at += signed + end;
        match text.trim_end_matches('.').parse::<f64>() {
            Ok(value) => Token::Number(sign * value),
            Err(_) => Token::Wrong("invalid number"),
        }
    }

    fn hexadecimal(&mut self, body: &[u8], signed: usize, sign: f64) -> Token {
        let digits = body.get(2..).unwrap_or_default();
        let count = digits
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        if !self.invalid || count == 0 {
            return Token::Wrong("invalid number");
        }
        self.at += signed + 2 + count;
        let value = digits.iter().take(count).fold(0.0, |value, digit| {
            let digit = char::from(*digit).to_digit(16).unwrap_or(0);
            value * 16.0 + f64::from(digit)
        });
        Token::Number(sign * value)
    }

    fn text(&mut self, start: usize) -> (Token, usize) {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            let begin = self.at;
            match self.bytes.get(begin) {
                None => return (Token::Wrong("unexpected end of string"), begin),
                Some(b'"') => {
                    self.at += 1;
                    return (Token::Text(text), start);
                }
                Some(b'\\') => {
                    if let Err(why) = self.escape(&mut text) {
                        return (Token::Wrong(why), begin);
                    }
                }
                Some(byte) => {
                    text.push(*byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), &'static str> {
        let byte = match self.peek(1) {
            b'u' => return self.unicode(text),
            b'"' => b'"',
            b'\\' => b'\\',
            b'/' => b'/',
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            _ => return Err("invalid escape code"),
        };
        text.push(byte);
        self.at += 2;
        Ok(())
    }

    fn four(&self, ahead: usize) -> Option<u32> {
        let digits = self.bytes.get(self.at + ahead..self.at + ahead + 4)?;
        let digits = std::str::from_utf8(digits).ok()?;
        let all = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        all.then(|| u32::from_str_radix(digits, 16).ok())?
    }

    fn unicode(&mut self, text: &mut Vec<u8>) -> Result<(), &'static str> {
        const WRONG: &str = "invalid unicode escape code";
        let mut code = self.four(2).ok_or(WRONG)?;
        let mut length = 6;
        if code & 0xf800 == 0xd800 {
            let low = match (code & 0x400, self.peek(6), self.peek(7)) {
                (0, b'\\', b'u') => self.four(8).filter(|low| low & 0xfc00 == 0xdc00),
                _ => None,
            };
            code = 0x10000 + ((code & 0x3ff) << 10) + (low.ok_or(WRONG)? & 0x3ff);
            length = 12;
        }
        let letter = char::from_u32(code).ok_or(WRONG)?;
        text.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        self.at += length;
        Ok(())
    }

    fn value(&mut self, token: Token, start: usize, depth: usize) -> mlua::Result<Value> {
        Ok(match token {
            Token::Text(text) => Value::String(self.lua.create_string(text)?),
            Token::Number(number) => Value::Number(number),
            Token::Boolean(flag) => Value::Boolean(flag),
            Token::Null => Value::NULL,
            Token::ObjectBegin => self.object(depth + 1)?,
            Token::ArrayBegin => self.array(depth + 1)?,
            token => return Err(self.unexpected("value", &token, start)),
        })
    }

    fn deeper(&self, depth: usize) -> mlua::Result<()> {
        if depth <= self.depth_max {
            return Ok(());
        }
        let place = self.at;
        Err(located(
            self.lua,
            &format!("Found too many nested data structures ({depth}) at character {place}"),
        ))
    }

    fn object(&mut self, depth: usize) -> mlua::Result<Value> {
        self.deeper(depth)?;
        let table = self.lua.create_table()?;
        let (mut token, mut start) = self.next();
        if let Token::ObjectEnd = token {
            return Ok(Value::Table(table));
        }
        loop {
            let Token::Text(key) = token else {
                return Err(self.unexpected("object key string", &token, start));
            };
            match self.next() {
                (Token::Colon, _) => {}
                (token, start) => return Err(self.unexpected("colon", &token, start)),
            }
            let (token_of_value, begin) = self.next();
            let value = self.value(token_of_value, begin, depth)?;
            table.raw_set(self.lua.create_string(key)?, value)?;
            match self.next() {
                (Token::ObjectEnd, _) => return Ok(Value::Table(table)),
                (Token::Comma, _) => {}
                (token, start) => {
                    return Err(self.unexpected("comma or object end", &token, start));
                }
            }
            (token, start) = self.next();
        }
    }

    fn array(&mut self, depth: usize) -> mlua::Result<Value> {
        self.deeper(depth)?;
        let table = self.lua.create_table()?;
        let (mut token, mut start) = self.next();
        if let Token::ArrayEnd = token {
            return Ok(Value::Table(table));
        }
        for index in 1usize.. {
            let value = self.value(token, start, depth)?;
            table.raw_set(index, value)?;
            match self.next() {
                (Token::ArrayEnd, _) => break,
                (Token::Comma, _) => {}
                (token, start) => {
                    return Err(self.unexpected("comma or array end", &token, start));
                }
            }
            (token, start) = self.next();
        }
        Ok(Value::Table(table))
    }
}
