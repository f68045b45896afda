// What LoadBest.kt asks of Android's org.json.
package org.json

class JSONException(message: String) : RuntimeException(message)

class JSONObject internal constructor(private val values: Map<String, Any?>) {
    constructor(text: String) : this(Reader(text).document())

    fun get(name: String): Any = values[name] ?: throw JSONException("No value for $name")

    fun getString(name: String): String = get(name).toString()

    fun getInt(name: String): Int = (get(name) as Number).toInt()

    fun getDouble(name: String): Double = (get(name) as Number).toDouble()

    fun getJSONObject(name: String): JSONObject = get(name) as JSONObject

    fun getJSONArray(name: String): JSONArray = get(name) as JSONArray

    fun optJSONArray(name: String): JSONArray? = values[name] as? JSONArray

    fun optDouble(name: String, fallback: Double): Double = (values[name] as? Number)?.toDouble() ?: fallback

    fun keys(): Iterator<String> = values.keys.iterator()
}

class JSONArray internal constructor(private val values: List<Any?>) {
    fun length(): Int = values.size

    fun getString(index: Int): String = values[index].toString()

    fun getLong(index: Int): Long = (values[index] as Number).toLong()

    fun getJSONObject(index: Int): JSONObject = values[index] as JSONObject
}

private class Reader(private val text: String) {
    private var at = 0

    fun document(): Map<String, Any?> = members()

    private fun next(): Char {
        while (text[at].isWhitespace()) at++
        return text[at]
    }

    private fun take(letter: Char) {
        if (next() != letter) throw JSONException("Expected $letter at character $at")
        at++
    }

    private fun value(): Any? =
        when (next()) {
            '{' -> JSONObject(members())
            '[' -> JSONArray(elements())
            '"' -> string()
            else -> word()
        }

    private fun members(): Map<String, Any?> {
        val found = linkedMapOf<String, Any?>()
        take('{')
        while (next() != '}') {
            val name = string()
            take(':')
            found[name] = value()
            if (next() == ',') at++
        }
        at++
        return found
    }

    private fun elements(): List<Any?> {
        val found = mutableListOf<Any?>()
        take('[')
        while (next() != ']') {
            found += value()
            if (next() == ',') at++
        }
        at++
        return found
    }

    private fun string(): String {
        take('"')
        val found = StringBuilder()
        while (text[at] != '"') {
            val letter = text[at++]
            if (letter != '\\') found.append(letter) else found.append(escaped())
        }
        at++
        return found.toString()
    }

    private fun escaped(): Char =
        when (val letter = text[at++]) {
            'n' -> '\n'
            't' -> '\t'
            'r' -> '\r'
            'b' -> '\b'
            'u' -> text.substring(at, at + 4).toInt(16).toChar().also { at += 4 }
            else -> letter
        }

    private fun word(): Any? {
        val begin = at
        while (at < text.length && text[at] !in ",]}" && !text[at].isWhitespace()) at++
        val word = text.substring(begin, at)
        return when (word) {
            "null" -> null
            "true" -> true
            "false" -> false
            else -> word.toIntOrNull() ?: word.toLongOrNull() ?: word.toDouble()
        }
    }
}
